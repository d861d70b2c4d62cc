// The rule require-signal: activities pass the signal of their attempt on.

import { requireSignal } from '../../eslint-plugin/src/rules/require-signal.ts';
import { orchestration, type Refused, testRule } from './rule-tester.ts';

const activity = (body: string, parameters = 'ctx, url'): string =>
  `defineActivity('load', async (${parameters}) => { ${body} });`;

const missing = (code: string, what: string): Refused => ({ code, errors: [{ messageId: 'missing', data: { what } }] });
const foreign = (code: string, what: string): Refused => ({ code, errors: [{ messageId: 'foreign', data: { what } }] });

const CASES = {
  valid: [
    activity(`return fetch(url, { signal: ctx.signal });`),
    activity(`return fetch(url, { signal }); `, '{ signal }, url'),
    activity(`return fetch(url, { ...options });`),
    activity(`return fetch(url, options);`),
    activity(`return fetch(...args);`),
    activity(`const signal = AbortSignal.any([ctx.signal, AbortSignal.timeout(1)]); return fetch(url, { signal });`),
    activity(
      `const own = new AbortController(); ctx.signal.onabort = () => own.abort();
       return fetch(url, { signal: own.signal });`,
    ),
    activity(`const { signal } = ctx; return fetch(url, { signal });`),
    activity(`return load(ctx, url);`),
    activity(`const fetch = (url) => url; return fetch(url);`),
    orchestration(`yield* ctx.run('get', async ({ signal }) => (await fetch(order, { signal })).status);`),
    `runtime.registerActivity('load', load);
       async function load(ctx, url) { return fetch(url, { signal: ctx.signal }); }`,
    // Code outside of activities.
    `export const load = async (url) => fetch(url);`,
    `import { setTimeout } from 'node:timers/promises';
       ${activity('await setTimeout(10, undefined, { signal: ctx.signal });')}`,
    `import { spawn } from 'node:child_process'; ${activity("spawn('ls', { signal: ctx.signal });")}`,
  ],
  invalid: [
    missing(activity(`return fetch(url);`), 'fetch()'),
    missing(activity(`return (await fetch(url, { method: 'POST' })).json();`), 'fetch()'),
    missing(activity(`return Promise.all([url].map((one) => fetch(one)));`), 'fetch()'),
    missing(activity(`return globalThis.fetch(url);`), 'fetch()'),
    missing(activity(`return fetch(url);`, '_, url'), 'fetch()'),
    missing(`runtime.registerActivity('load', load); async function load(ctx, url) { return fetch(url); }`, 'fetch()'),
    missing(`const load = async (ctx, url) => fetch(url); defineActivity('load', load);`, 'fetch()'),
    missing(orchestration(`yield* ctx.run('get', async () => (await fetch(order)).status);`), 'fetch()'),
    missing(
      `import { run } from 'perdure/orchestration'; function* f() { yield* run('get', () => fetch('/')); }`,
      'fetch()',
    ),
    missing(`import { setTimeout } from 'node:timers/promises'; ${activity('await setTimeout(10);')}`, 'setTimeout()'),
    missing(`import { execFile } from 'child_process'; ${activity("execFile('ls', ['-l']);")}`, 'execFile()'),
    missing(`import { request } from 'undici'; ${activity('await request(url);')}`, 'undici.request()'),
    missing(`import axios from 'axios'; ${activity('await axios.post(url, { total: 1 });')}`, 'axios.post()'),
    foreign(activity(`return fetch(url, { signal: AbortSignal.timeout(5000) });`), 'fetch()'),
    foreign(activity(`return fetch(url, { signal: AbortSignal.timeout(5000) });`, '{ attempt }, url'), 'fetch()'),
  ],
};

testRule('javascript', 'require-signal', requireSignal, CASES);
testRule('typescript', 'require-signal', requireSignal, {
  ...CASES,
  invalid: [
    ...CASES.invalid,
    missing(`export async function load(ctx: ActivityContext) { await fetch('/'); }`, 'fetch()'),
  ],
});
testRule('types', 'require-signal', requireSignal, {
  valid: [
    `import { defineActivity } from 'perdure';
       export default defineActivity('a', (c) => fetch('/', { signal: c.signal }));`,
  ],
  invalid: [
    missing(
      `import { defineActivity } from 'perdure'; export default defineActivity('a', () => fetch('/'));`,
      'fetch()',
    ),
  ],
});
