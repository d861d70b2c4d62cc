// A worker of agent.test.ts: an agent whose activity streams the tokens of an answer. Runs in plain Node with the built
// package.

import { defineActivity, defineOrchestration, Runtime } from 'perdure';

import { openStore, pause, say } from '../support/worker-parts.mjs';

const { store, name, tokens, hangsAt } = JSON.parse(process.argv[2]);

/** A model that answers a question with the same tokens each time, one by one. At one of them it hangs. */
const answer = defineActivity('answer', async (ctx, question) => {
  for (let n = 0; n < tokens; n += 1) {
    ctx.stream('tokens').write(`${question}${n} `);
    await (`${question}${n}` === hangsAt ? new Promise(() => {}) : pause(2));
  }
  return tokens;
});

const agent = defineOrchestration('agent', function* (ctx) {
  for (const question of ['a', 'b']) {
    ctx.stream('tokens').write(`[${question}: `);
    const count = yield* ctx.call(answer, question);
    ctx.stream('tokens').write(`${count}]`);
  }
  ctx.stream('tokens').close();
});

const provider = await openStore(store);
const runtime = new Runtime(provider, { logLevel: 'silent', workerName: name, lease: '2s' });
runtime.register(answer, agent);
runtime.on('error', () => undefined);
await runtime.start();
say({ type: 'ready' });
