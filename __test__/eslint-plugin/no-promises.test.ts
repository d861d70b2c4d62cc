// The rule no-promises: an orchestration neither yields nor awaits a promise.

import { noPromises } from '../../eslint-plugin/src/rules/no-promises.ts';
import { orchestration, type Refused, testRule } from './rule-tester.ts';

const yielded = (code: string): Refused => ({ code, errors: [{ messageId: 'yielded' }] });
const awaited = (code: string): Refused => ({ code, errors: [{ messageId: 'awaited' }] });
const combined = (code: string, what: string, instead: string): Refused => ({
  code,
  errors: [{ messageId: 'combined', data: { what, instead } }],
});

const CASES = {
  valid: [
    orchestration(`yield ctx.sleep(1); yield* ctx.all([ctx.sleep(1)]); yield* helper(ctx);`),
    orchestration(
      `return yield* ctx.run('get', async ({ signal }) => {
       const r = await fetch('/', { signal }); return r.json(); });`,
    ),
    orchestration(`yield* ctx.run('all', () => Promise.all([fetch('/a'), fetch('/b')]));`),
    `defineActivity('get', async (ctx) => { await Promise.all([fetch('/')]); });`,
    `function* values() { yield Promise.resolve(1); }`,
    `async function main() { await client.start(order); await Promise.all([]); }`,
    // An orchestration that is itself asynchronous.
    `defineOrchestration('agent', async (ctx) => { const a = await ctx.call(search);
       return Promise.all([ctx.call(a)]); });`,
  ],
  invalid: [
    yielded(orchestration(`yield fetch('/');`)),
    yielded(orchestration(`yield* fetch('/');`)),
    yielded(orchestration(`yield new Promise((resolve) => order.then(resolve));`)),
    yielded(orchestration(`yield Promise.resolve(1);`)),
    yielded(orchestration(`yield order.load().then((value) => value);`)),
    yielded(orchestration(`yield import('./other.mjs');`)),
    yielded(orchestration(`yield (async () => 1)();`)),
    yielded(orchestration(`const going = fetch('/'); yield going;`)),
    yielded(`async function load() {} ${orchestration('yield load();')}`),
    yielded(`const load = async () => {}; ${orchestration('yield load();')}`),
    yielded(`import { readFile } from 'fs/promises'; ${orchestration("yield readFile('a');")}`),
    yielded(`import { setTimeout } from 'node:timers/promises'; ${orchestration('yield setTimeout(1);')}`),
    yielded(orchestration(`ctx.spawn(function* () { yield fetch('/'); });`)),
    yielded(`function* helper(ctx) { yield fetch('/'); }`),
    yielded(`import { sleep } from 'perdure/orchestration'; function* f() { yield sleep(1); yield fetch('/'); }`),
    awaited(orchestration(`const load = async () => { await order; }; load();`)),
    awaited(orchestration(`order.forEach(async (item) => { for await (const part of item) part(); });`)),
    awaited(`defineOrchestration('agent', async (ctx) => { await fetch('/'); });`),
    awaited(`runtime.registerOrchestration('agent', async (ctx) => { await new Promise(() => {}); });`),
    combined(orchestration(`const all = Promise.all([ctx.call(a)]); return 1;`), 'Promise.all', 'ctx.all'),
    combined(orchestration(`Promise.race([ctx.call(a), ctx.sleep(1)]);`), 'Promise.race', 'ctx.race'),
  ],
};

testRule('javascript', 'no-promises', noPromises, CASES);
testRule('typescript', 'no-promises', noPromises, CASES);

const IMPORTS = `import { defineActivity, defineOrchestration, type Future, type OrchestrationContext } from 'perdure';
declare const load: (n: number) => Promise<number>;
declare const later: Future<number>;
`;

testRule('types', 'no-promises', noPromises, {
  valid: [
    `${IMPORTS} export function* main(flow: OrchestrationContext) { yield later; return yield* later; }`,
    `${IMPORTS} export default defineActivity('load', async () => (await load(1)) + 1);`,
  ],
  invalid: [
    yielded(`${IMPORTS} export function* main(flow: OrchestrationContext) { yield load(1); }`),
    yielded(`${IMPORTS} export function* main(flow: OrchestrationContext, ready?: Promise<void>) { yield ready; }`),
    awaited(
      `${IMPORTS} export const main = defineOrchestration('m', (async (flow: any) => { await load(1); }) as never);`,
    ),
  ],
});
