// A runtime whose event loop is blocked, with no other worker to take over. It reports that, and nothing is lost.

import { describe, expect, it } from 'vitest';

import { deferred } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it.each(['turn', 'activity'])(
    'a warning reports a %s that holds the event loop, and running work continues',
    async (what) => {
      const { client } = store;
      const [id, other, name] = [store.id(), store.id(), store.id('blocks')];
      const warned = deferred<string>();
      const gate = deferred();
      let aborted = false;
      const runtime = store.runtime({ turnDeadline: '100ms' });
      runtime.on('warning', ({ message }) => warned.resolve(message));
      runtime
        .registerActivity('block', () => block(400))
        .registerActivity('wait', async ({ signal }) => {
          signal.addEventListener('abort', () => (aborted = true));
          await gate.promise;
        })
        .registerOrchestration(name, function* (ctx) {
          if (what === 'turn') block(400);
          else yield ctx.scheduleActivity('block');
          return what;
        })
        .registerOrchestration('waits', function* (ctx) {
          yield ctx.scheduleActivity('wait');
        });
      await runtime.start();
      await client.startOrchestration(other, 'waits');
      await client.startOrchestration(id, name);
      expect(await warned.promise).toMatch(
        what === 'turn' ? `more than 100 ms by a turn of instance '${id}'` : `by activity 'block' of instance '${id}'`,
      );
      expect(await client.waitForOrchestration(id, SOON)).toMatchObject({ status: 'Completed', output: what });
      gate.resolve();
      expect(await client.waitForOrchestration(other, SOON)).toMatchObject({ status: 'Completed' });
      expect(aborted).toBe(false);
      expect(runtime.metrics()).toMatchObject({ fenced: 0, attempts: what === 'turn' ? 1 : 2 });
    },
  );
});
