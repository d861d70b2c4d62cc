// The rule no-nondeterminism: calls in orchestrations whose result differs in a replay.

import { noNondeterminism } from '../../eslint-plugin/src/rules/no-nondeterminism.ts';
import * as facts from '../../js/orchestration/nondeterministic.ts';
import { orchestration, type Refused, testRule } from './rule-tester.ts';

const refused = (code: string): Refused => ({ code, errors: [{ messageId: 'refused' }] });
const guarded = (code: string): Refused => ({ code, errors: [{ messageId: 'guarded' }] });
const differs = (code: string): Refused => ({ code, errors: [{ messageId: 'differs' }] });

/** Every function that the determinism guard refuses, as code calls it. */
const GUARD = [
  ...Object.keys(facts.OF_GLOBAL),
  ...Object.keys(facts.OF_CRYPTO).map((key) => `crypto.${key}`),
  ...Object.keys(facts.OF_PROCESS).map((key) => `process.${key}`),
  'Temporal.Now.instant',
];

const CASES = {
  valid: [
    orchestration(`const due = new Date(ctx.now() + 1000); return new Date('2030-01-01').getTime() + due.getTime();`),
    orchestration(`return [ctx.now(), ctx.random(), ctx.randomUUID(), Math.max(1, 2), Temporal.Now.timeZoneId()];`),
    orchestration(`const fetch = (n) => n; return fetch(1);`),
    orchestration(`yield* ctx.run('now', async () => { await fetch('/'); return [Date.now(), process.env.HOME]; });`),
    `defineActivity('now', async () => { setTimeout(() => {}, 1);
       return [Date.now(), Math.random(), process.env.A]; });`,
    `runtime.registerActivity('now', now); function now() { return Date.now(); }`,
    `const now = () => Date.now(); setTimeout(() => fetch('/'), 1);`,
    `function* ids() { yield Math.random(); }`,
    // A read runs in the process of the caller.
    `defineEntity('cart', { handlers: {}, reads: { age: ({ at }) => Date.now() - at } });`,
    {
      code: orchestration(`return [Date.now(), new Date(), Math.random(), crypto.randomUUID(), performance.now()];`),
      options: [{ allowGuarded: true }],
    },
    `import { join } from 'node:path'; ${orchestration("return join('a', 'b');")}`,
  ],
  invalid: [
    ...GUARD.map((name) => refused(orchestration(`${name}();`))),
    refused(`import { setTimeout as pause } from 'node:timers/promises'; ${orchestration('yield* go(pause(1));')}`),
    refused(`import timers from 'timers/promises'; ${orchestration('timers.scheduler.wait(1);')}`),
    refused(`import { scheduler } from 'node:timers/promises'; ${orchestration('scheduler.yield();')}`),
    refused(`import { randomBytes } from 'crypto'; ${orchestration('return randomBytes(8);')}`),
    refused(`import * as crypto from 'node:crypto'; ${orchestration('return crypto.randomInt(8);')}`),
    refused(`const { randomInt } = require('crypto'); ${orchestration('return randomInt(8);')}`),
    refused(orchestration(`return globalThis.fetch('/');`)),
    refused(orchestration(`const go = fetch; return go('/');`)),
    refused(orchestration(`return process.hrtime.bigint();`)),
    refused(orchestration(`yield* ctx.all(order.map((n) => setTimeout(() => {}, n)));`)),
    refused(orchestration(`ctx.spawn(function* () { setImmediate(() => {}); });`)),
    refused(`function* helper(ctx) { fetch('/'); }`),
    guarded(orchestration(`return Date.now();`)),
    guarded(`defineEntity('cart', { initial: () => ({ at: Date.now() }), handlers: {} });`),
    refused(`defineEntity('cart', { initial: () => 0, handlers: { *add(flow) { fetch('/'); } } });`),
    guarded(orchestration(`return new Date();`)),
    guarded(orchestration(`return Date();`)),
    guarded(orchestration(`const { now } = Date; return now();`)),
    guarded(orchestration(`return Math.random();`)),
    guarded(orchestration(`return crypto.randomUUID();`)),
    guarded(`import { randomUUID as id } from 'node:crypto'; ${orchestration('return id();')}`),
    guarded(orchestration(`return performance.now();`)),
    guarded(`import { sleep } from 'perdure/orchestration'; function* f() { yield* sleep(Date.now()); }`),
    differs(orchestration(`return process.env.HOME;`)),
    differs(orchestration(`const { HOME } = process.env; return HOME;`)),
    differs(`import { env } from 'node:process'; ${orchestration('return env.HOME;')}`),
    differs(orchestration(`return process.cwd();`)),
    differs(`import { readFileSync } from 'node:fs'; ${orchestration("return readFileSync('a');")}`),
    differs(`import fs from 'fs'; ${orchestration("return fs.readFileSync('a');")}`),
    differs(`import * as os from 'node:os'; ${orchestration('return os.hostname();')}`),
    differs(`import axios from 'axios'; ${orchestration("yield* ctx.sleep(axios.get('/'));")}`),
  ],
};

testRule('javascript', 'no-nondeterminism', noNondeterminism, CASES);
testRule('typescript', 'no-nondeterminism', noNondeterminism, {
  valid: [...CASES.valid, `const now = (ctx: ActivityContext) => Date.now();`],
  invalid: [
    ...CASES.invalid,
    guarded(`export const deadline = (ctx: OrchestrationContext) => Date.now();`),
    differs(orchestration(`return process.env['HOME']!;`)),
  ],
});
testRule('types', 'no-nondeterminism', noNondeterminism, {
  valid: [`import { defineActivity } from 'perdure'; export default defineActivity('now', () => Date.now());`],
  invalid: [
    guarded(
      `import { defineOrchestration } from 'perdure'; defineOrchestration('now', function* () { return Date.now(); });`,
    ),
  ],
});
