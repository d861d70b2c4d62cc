// A forgotten `yield*`: an error or a line of the log says at once which future it is about, and what to write.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { defineActivity, defineOrchestration, type OrchestrationDefinition } from 'perdure';
import { replay } from 'perdure/testing';
import { describe, expect, it } from 'vitest';

import { collectLines } from '../../support/log-lines.ts';
import { root } from '../../support/process.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

/** The time in which a program that forgets a `yield*` has to say so, in ms. */
const WITHIN_MS = 5_000;

const price = defineActivity('price', (_, fruit: unknown) => `price of ${fruit}`);
const child = defineOrchestration('child', function* (ctx) {
  yield* ctx.sleep('1h');
});

/** Orchestrations that use a future in the place of its value, each with the error that it fails with. */
const USES = [
  {
    error: 'PayloadError: input.each',
    orchestration: defineOrchestration('in an input', function* (ctx) {
      return yield* ctx.call(price, { each: ctx.call(price, 'apple') });
    }),
  },
  {
    error: 'PayloadError: output[0]',
    orchestration: defineOrchestration('in the output', function* (ctx) {
      yield* ctx.call(price, 'pear');
      return [ctx.call(price, 'apple')];
    }),
  },
  {
    error: 'PayloadError: status',
    orchestration: defineOrchestration('in the status', function* (ctx) {
      ctx.setCustomStatus(ctx.call(price, 'apple'));
    }),
  },
  {
    error: 'PayloadError: data.each',
    orchestration: defineOrchestration('in an event', function* (ctx) {
      yield* ctx.raiseEvent('other', 'priced', { each: ctx.call(price, 'apple') });
    }),
  },
  {
    error: "TypeError: orchestration 'child': tags.each",
    orchestration: defineOrchestration('in tags', function* (ctx) {
      yield* ctx.startOrchestration('child', 'c', 1, { tags: { each: ctx.call(price, 'apple') as never } });
    }),
  },
  {
    error: 'DeterminismError: the future',
    orchestration: defineOrchestration('in a template', function* (ctx) {
      yield* ctx.call(price, `two times ${ctx.call(price, 'apple')}`);
    }),
  },
  {
    error: 'PayloadError: output',
    orchestration: defineOrchestration('in an inline activity', function* (ctx) {
      const each = ctx.call(price, 'apple');
      return yield* ctx.run('both', async () => each, { retry: { maxAttempts: 1 } });
    }),
  },
];

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it.each(USES.map(({ orchestration, error }) => [orchestration.name, orchestration, error] as const))(
    'a future %s is refused',
    async (_, orchestration, error) => {
      await store.start((runtime) => runtime.register(price, child, orchestration));
      const handle = await store.client.start(orchestration as OrchestrationDefinition<undefined>, undefined, {
        id: store.id(),
      });
      const status = await store.client.waitForOrchestration(handle.id, SOON);
      expect(status.status).toBe('Failed');
      const { name, message, cause } = status.error as Error & { cause?: Error };
      const said = name === 'ActivityError' ? `${cause?.name}: ${cause?.message}` : `${name}: ${message}`;
      expect(said.startsWith(error)).toBe(true);
      expect(said).toContain("activity 'price'");
      expect(said).toMatch(/write `yield\*`/);
    },
  );

  it.each([
    ['kept', {}],
    ['replayed for every turn', { cachedInstancesMax: 0 }],
  ])('work that is never awaited is logged once with its line, by an instance that is %s', async (_, options) => {
    const forgetful = defineOrchestration('forgetful', function* (ctx) {
      ctx.callOrchestration(child);
      for (const fruit of ['pear', 'plum', 'fig']) yield* ctx.call(price, fruit);
      ctx.call(price, 'apple');
      yield* ctx.race(ctx.call(price, 'kiwi'), ctx.waitForEvent('never'), ctx.sleep('1h'));
      yield* ctx.startOrchestration('child', `${ctx.instanceId}-detached`);
      return 'priced';
    });
    const { lines, logger } = collectLines();
    const runtime = await store.start((runtime) => runtime.register(price, child, forgetful), {
      ...options,
      logger,
      logLevel: 'warn',
      sourceStacks: true,
    });
    const handle = await store.client.start(forgetful, undefined, { id: store.id() });
    expect(await handle.result({ timeout: SOON })).toBe('priced');
    await runtime.shutdown();
    expect(lines).toEqual([
      {
        level: 'warn',
        message: expect.stringMatching(
          / has returned and never waited for child .*, activity 'price' .*: write `yield\*`/,
        ),
        fields: {
          instanceId: handle.id,
          executionId: 1,
          orchestrationName: 'forgetful',
          version: '1.0.0',
          unawaited: [
            {
              future: expect.stringMatching(/^child .* \(child\)$/),
              source: expect.stringContaining('yields.test.ts:'),
            },
            { future: "activity 'price'", source: expect.any(String) },
          ],
        },
      },
    ]);
    const { executions } = replay(await store.client.exportHistory(handle.id), [forgetful]);
    expect(executions).toMatchObject([{ outcome: 'completed' }]);
    expect(lines).toHaveLength(1);
  });
});

describe.each(SHARED_STORES)('a program on $name', (kind) => {
  const store = useStore(kind);

  it.each([
    ['input', "PayloadError: input.each cannot be stored: it is the future of activity 'price'"],
    ['output', "PayloadError: output.price cannot be stored: it is the future of activity 'price'"],
    ['template', "DeterminismError: the future of activity 'price' was used as a string"],
    ['statement', "has returned and never waited for activity 'price' (at "],
    ['condition', "has returned and never waited for activity 'price' (at "],
    ['sleep', 'has returned and never waited for a timer (at '],
  ])('that forgets a yield* (%s) says so in time', async (way, text) => {
    const args = [join(root, '__test__/support/forgetful.mjs'), way, JSON.stringify(store.address)];
    const program = spawn(process.execPath, args, {
      cwd: root,
      env: { ...process.env, NODE_OPTIONS: '', NODE_ENV: '' },
      timeout: WITHIN_MS,
      killSignal: 'SIGKILL',
    });
    let said = '';
    for (const stream of [program.stdout, program.stderr])
      stream.setEncoding('utf8').on('data', (chunk: string) => {
        said += chunk;
      });
    const [code, signal] = await once(program, 'close');
    expect(said).toContain(text);
    expect(said).toMatch(/write `yield\*`/);
    expect(said).toContain('forgetful.mjs:');
    expect([code, signal]).toEqual([/returned/.test(text) ? 0 : 1, null]);
  });
});
