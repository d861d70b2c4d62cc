// The rule no-forgotten-yield: futures that are used as their values, and futures that no code waits for.

import { noForgottenYield } from '../../eslint-plugin/src/rules/no-forgotten-yield.ts';
import { orchestration, type Refused, testRule } from './rule-tester.ts';

/** Code in an orchestration that is refused with one message. */
const used = (use: string, body: string, what = 'ctx.call(price, order)'): Refused => ({
  code: orchestration(body),
  errors: [{ messageId: 'used', data: { use, what }, suggestions: 1 }],
});

const USES = {
  condition: 'as a condition, which a future always meets',
  text: 'as a text',
  number: 'in a calculation or a comparison',
  list: 'as a list',
  parts: 'for a property that its value may have',
  stored: 'in a value that is stored',
  output: 'in the output',
  printed: 'in the place of its value in a log',
};

const CALL = 'ctx.call(price, order)';

const dropped = (code: string, suggestions = 1): Refused => ({ code, errors: [{ messageId: 'dropped', suggestions }] });

const JAVASCRIPT = {
  valid: [
    orchestration(`return yield* ${CALL};`),
    orchestration(`yield ${CALL};`),
    orchestration(`const price = yield* ${CALL}; return \`\${price}\`;`),
    orchestration(`const one = ${CALL}; yield* ctx.sleep('1s'); return yield* one;`),
    orchestration(`const [a, b] = yield* ctx.all([${CALL}, ctx.sleep(1)]); return a;`),
    orchestration(`const all = [${CALL}]; all.push(${CALL}); yield* ctx.all(all);`),
    orchestration(`yield* ctx.select({ a: ${CALL}, late: ctx.sleep('1h') });`),
    orchestration(`yield* ctx.withTimeout('1s', ${CALL});`),
    orchestration(`yield* ctx.all(order.items.map((item) => ctx.call(price, item)));`),
    orchestration(`const a = ${CALL}; a.cancel('not needed');`),
    orchestration(`${CALL}.cancel();`),
    orchestration(`yield* ctx.map([order], (item) => ctx.call(price, item), { concurrency: 2 });`),
    orchestration(`yield* ctx.saga(function* (undo) { undo(() => ctx.call(refund)); yield* ctx.call(price); });`),
    // Forms whose work goes on without a wait.
    orchestration(`ctx.startOrchestration('audit', 'a'); ctx.raiseEvent('a', 'e'); ctx.enqueueEvent('a', 'q');`),
    orchestration(`ctx.spawn(function* () { yield* ${CALL}; });`),
    orchestration(`const worker = ctx.spawn(function* () { yield* ${CALL}; });`),
    orchestration(`return ctx.continueAsNew(order);`),
    orchestration(`const ready = ctx.deferred(); ready.resolve(1); if (ready.isSettled) return;`),
    orchestration(`const winner = yield* ctx.race(${CALL}); if (winner.index === 0) return 1;`),
    orchestration(`const pending = ${CALL}; const same = pending === order; yield* pending;`),
    orchestration(`ctx.traceInfo('a line'); ctx.setCustomStatus({ step: 1 }); const now = ctx.now(); return now + 1;`),
    // Helpers return futures, also those that are generators.
    `function* price(ctx) { return ctx.call(a); }`,
    `const price = (ctx, item) => ctx.call(a, item);`,
    `defineEntity('cart', { handlers: { *add(ctx, n) { yield* ctx.call(a); return n; } }, reads: { n: (n) => n } });`,
    // Another ctx is no context of an orchestration.
    `defineActivity('charge', async (ctx, order) => { ctx.call(order); return \`\${ctx.call(order)}\`; });`,
    `app.use((ctx) => { ctx.call(next); });`,
    `app.use(function* (koa) { koa.call(next); });`,
    // A generator that is a list of values.
    `${orchestration('for (const n of range(3)) yield* ctx.sleep(n);')} function* range(n) { yield n; }`,
  ],
  invalid: [
    dropped(orchestration(`${CALL};`)),
    dropped(orchestration(`void ${CALL};`)),
    dropped(orchestration(`order && ${CALL};`)),
    dropped(orchestration(`ctx.all([ctx.call(a), ctx.call(b)]);`)),
    dropped(orchestration(`ctx.sleep('1h');`)),
    dropped(orchestration(`ctx.map([order], (item) => ctx.call(price, item));`)),
    dropped(orchestration(`ctx.saga(function* (undo) { yield* ctx.call(price); });`)),
    used(USES.condition, `if (ctx.pollEvent('stop')) return 1;`, "ctx.pollEvent('stop')"),
    dropped(orchestration(`ctx.waitForEvent('approve');`)),
    dropped(orchestration(`ctx.uncancellable(function* () { yield* ${CALL}; });`)),
    dropped(orchestration(`ctx.spawn(function* () { ${CALL}; });`)),
    dropped(orchestration(`order.items.forEach((item) => ctx.call(price, item));`), 0),
    dropped(orchestration(`order.items.map((item) => { return ctx.call(price, item); });`), 0),
    dropped(`const order = function* (context) { context.call(a); }; runtime.registerOrchestration('order', order);`),
    dropped(
      `function* order(input, flow) { flow.call(a); };
       function* main(c) { c.sleep(1); } defineOrchestration('m', main);`,
    ),
    dropped(`defineEntity('cart', { initial: () => 0, handlers: { *add(flow, n) { flow.call(a); return n; } } });`),
    {
      code: `defineEntity('cart', { handlers: { add: function* (flow) { return ${CALL.replace('ctx', 'flow')}; } } });`,
      errors: [{ messageId: 'used', data: { use: USES.output, what: CALL.replace('ctx', 'flow') }, suggestions: 1 }],
    },
    dropped(`import { sleep as pause } from 'perdure/orchestration'; function* wait() { pause(1); }`),
    dropped(`import * as free from 'perdure/orchestration'; function* wait() { free.sleep(1); }`),
    dropped(
      `import { currentContext } from 'perdure/orchestration';
       function* f() { const c = currentContext(); c.sleep(1); }`,
    ),
    dropped(`function* helper(ctx) { yield* ctx.sleep(1); } ${orchestration('helper(ctx);')}`),
    dropped(`const helper = function* (ctx) { yield* ctx.sleep(1); }; ${orchestration('helper(ctx);')}`),
    {
      code: orchestration(`const one = ${CALL}; return 1;`),
      errors: [{ messageId: 'unused', data: { what: 'one' } }],
    },
    {
      code: 'function* order(flow) { flow.call(a); }',
      settings: { perdure: { contextNames: ['flow'] } },
      errors: [{ messageId: 'dropped', data: { what: 'flow.call(a)' }, suggestions: 1 }],
    },
    used(USES.condition, `if (${CALL}) return 1;`),
    used(USES.condition, `while (!${CALL}) yield* ctx.sleep(1);`),
    used(USES.condition, `return (${CALL}) ? 1 : 2;`),
    used(USES.condition, `return ${CALL} && 2;`),
    used(USES.condition, `switch (${CALL}) { case 1: return 1; }`),
    used(USES.condition, `return Boolean(${CALL});`),
    used(USES.text, `return \`costs \${${CALL}}\`;`),
    used(USES.text, `return String(${CALL});`),
    used(USES.text, `return JSON.stringify({ price: ${CALL} });`),
    used(USES.text, `return order[${CALL}];`),
    used(USES.number, `return ${CALL} + 1;`),
    used(USES.number, `return 'costs ' + ${CALL};`),
    used(USES.number, `return 3 > ${CALL};`),
    used(USES.number, `return +${CALL};`),
    used(USES.number, `return Number(${CALL});`),
    used(USES.list, `for (const item of ${CALL}) yield* ctx.sleep(item);`),
    used(USES.list, `return [...${CALL}];`),
    used(USES.list, `const [first] = ${CALL}; return first;`),
    used(USES.parts, `return ${CALL}.total;`),
    used(USES.parts, `const { total } = ${CALL}; return total;`),
    used(USES.stored, `yield* ctx.sleep(${CALL});`),
    used(USES.stored, `yield* ctx.scheduleActivity('charge', { deep: [{ price: ${CALL} }] });`),
    used(USES.stored, `ctx.setCustomStatus({ price: ${CALL} });`),
    used(USES.stored, `ctx.raiseEvent('other', 'priced', ${CALL});`),
    used(USES.stored, `ctx.startOrchestration('child', 'c', 1, { tags: { price: ${CALL} } });`),
    used(USES.stored, `yield* ctx.continueAsNew(${CALL});`),
    used(USES.output, `return ${CALL};`),
    used(USES.output, `return { price: ${CALL}, order };`),
    used(USES.output, `return order ? 1 : ${CALL};`),
    used(USES.printed, `console.log(${CALL}); return 1;`),
    used(USES.printed, `ctx.traceInfo('priced', { price: ${CALL} }); return 1;`),
    {
      code: orchestration(`const one = ${CALL}; if (one) return one; yield* one;`),
      errors: [
        { messageId: 'used', data: { what: 'one', use: USES.condition }, suggestions: 1 },
        { messageId: 'used', data: { what: 'one', use: USES.output }, suggestions: 1 },
      ],
    },
  ],
};

testRule('javascript', 'no-forgotten-yield', noForgottenYield, JAVASCRIPT);
testRule('typescript', 'no-forgotten-yield', noForgottenYield, {
  valid: [
    ...JAVASCRIPT.valid,
    `function price(ctx: OrchestrationContext, item: Item): Future<number> { return ctx.call(a, item); }`,
    `function* helper(ctx: Other) { ctx.call(a); }`,
  ],
  invalid: [
    ...JAVASCRIPT.invalid,
    dropped(`function price(item: Item, flow: OrchestrationContext) { flow.call(a, item); }`, 0),
    dropped(`function* price(flow: perdure.OrchestrationContext) { (flow.call(a) as Future<number>)!; }`),
    used(USES.number, `return (${CALL} as never) + 1;`),
  ],
});

const IMPORTS = `import { defineActivity, defineEntity, defineOrchestration } from 'perdure';
import type { Future, OrchestrationContext } from 'perdure';
const price = defineActivity('price', (_, fruit: string) => ({ total: fruit.length }));
`;
const ENTITY = `const list = defineEntity('list', {
  initial: () => 0, handlers: { *add(_, n: number) { return n; } } });`;

testRule('types', 'no-forgotten-yield', noForgottenYield, {
  valid: [
    `${IMPORTS} function* fine(flow: OrchestrationContext) {
       const p = yield* flow.call(price, 'a'); return \`\${p.total}\`; }`,
    `${IMPORTS} class Shop { constructor(readonly flow: OrchestrationContext) {}
       *order() { yield* this.flow.sleep(1); } }`,
    `${IMPORTS} export const all = (flow: OrchestrationContext) => ['a'].map((fruit) => flow.call(price, fruit));`,
    `${IMPORTS} export const is = (future: Future<number> | undefined) => future === undefined;`,
    // Questions whether there is a future.
    `${IMPORTS} export function* main(maybe?: Future<number>) { return maybe ? yield* maybe : 0; }`,
    `${IMPORTS} export function* send(flow: OrchestrationContext) {
       flow.channel<number>().send(1); yield* flow.sleep(1); }`,
    `${IMPORTS} export default defineOrchestration('whole', (flow) => body(flow));
     function* body(flow: OrchestrationContext) { yield* flow.channel<number>().forEach((n) => body(flow)); }`,
    // The context of something else.
    `export const use = (ctx: { call(n: number): number }) => { ctx.call(1); return \`\${ctx.call(2)}\`; };`,
  ],
  invalid: [
    dropped(
      `${IMPORTS} class Shop { constructor(readonly flow: OrchestrationContext) {} *order() { this.flow.sleep(1); } }`,
    ),
    dropped(
      `${IMPORTS} ${ENTITY} export function* main(flow: OrchestrationContext) { flow.entity(list, 'a').add(1); }`,
    ),
    dropped(
      `${IMPORTS} export const cart = defineEntity('cart', { initial: () => 0, handlers: {
       *add(flow, fruit: string) { flow.call(price, fruit); yield* flow.sleep(1); } } });`,
    ),
    dropped(
      `${IMPORTS} const quote = (flow: OrchestrationContext) => flow.call(price, 'a');
       export function* main(flow: OrchestrationContext) { quote(flow); yield* flow.sleep(1); }`,
    ),
    dropped(
      `${IMPORTS} export const main = (steps: { pay(): Generator<Future<void>, void, any> }) =>
       defineOrchestration('main', function* () { steps.pay(); });`,
    ),
    {
      code: `${IMPORTS} export const text = (future: Future<number>) => \`\${future}\`;`,
      errors: [{ messageId: 'used', data: { what: 'future', use: USES.text } }],
    },
    {
      code: `${IMPORTS} export function* main(shop: { pending: Future<number> }) {
       if (shop.pending) yield* shop.pending; }`,
      errors: [{ messageId: 'used', data: { what: 'shop.pending', use: USES.condition }, suggestions: 1 }],
    },
  ],
});

testRule('javascript', 'no-forgotten-yield, suggestions', noForgottenYield, {
  valid: [],
  invalid: [
    [`${CALL};`, `yield* ${CALL};`],
    [`return \`\${${CALL}}\`;`, `return \`\${yield* ${CALL}}\`;`],
    [`return ${CALL} + 1;`, `return (yield* ${CALL}) + 1;`],
    [`if (!${CALL}) return;`, `if (!(yield* ${CALL})) return;`],
    [`return ${CALL}.total;`, `return (yield* ${CALL}).total;`],
    [`yield* ctx.call(charge, { price: ${CALL} });`, `yield* ctx.call(charge, { price: yield* ${CALL} });`],
  ].map(([before = '', after = '']) => ({
    code: orchestration(before),
    errors: [
      {
        messageId: before.startsWith('ctx') && before.endsWith('order);') ? 'dropped' : 'used',
        suggestions: [{ messageId: 'write', output: orchestration(after) }] as never,
      },
    ],
  })),
});
