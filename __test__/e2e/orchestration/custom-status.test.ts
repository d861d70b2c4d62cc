import { describe, expect, it } from 'vitest';

import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  describe('the custom status', () => {
    it('goes up by one version with each stored change, and wakes waiting clients', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('status', function* (ctx) {
          ctx.setCustomStatus('never stored: another follows in this turn');
          ctx.setCustomStatus({ step: 'two', done: 0.5 });
          const seen = [ctx.getCustomStatus()];
          yield ctx.waitForEvent('next');
          ctx.setCustomStatus({ step: 'two', done: 0.5 });
          yield ctx.waitForEvent('next');
          ctx.resetCustomStatus();
          seen.push(ctx.getCustomStatus());
          yield ctx.waitForEvent('next');
          ctx.setCustomStatus(new Map([['rich', new Date(0)]]));
          seen.push(ctx.getCustomStatus());
          return seen;
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'status');
      // The poll interval is an hour, so only a wake can be in time.
      const change = (version: number) => store.client.waitForStatusChange(id, version, '1h', SOON);
      expect(await change(0)).toEqual({ customStatus: { step: 'two', done: 0.5 }, customStatusVersion: 1 });
      const second = change(1);
      await store.client.raiseEvent(id, 'next');
      await store.client.raiseEvent(id, 'next');
      expect(await second).toEqual({ customStatus: undefined, customStatusVersion: 2 });
      expect(await store.client.getStatus(id)).toMatchObject({ status: 'Running', customStatusVersion: 2 });
      await store.client.raiseEvent(id, 'next');
      const rich = new Map([['rich', new Date(0)]]);
      expect(await change(2)).toEqual({ customStatus: rich, customStatusVersion: 3 });
      const { output, customStatus, customStatusVersion } = await store.client.waitForOrchestration(id, SOON);
      expect(output).toEqual([{ step: 'two', done: 0.5 }, undefined, rich]);
      expect([customStatus, customStatusVersion]).toEqual([rich, 3]);
      // The instance has ended, so no later change can come.
      expect(await change(3)).toBeNull();
    });

    it('is waited for no longer than asked', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('silent', function* (ctx) {
          yield ctx.waitForEvent('go');
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'silent');
      const before = performance.now();
      expect(await store.client.waitForStatusChange(id, 0, undefined, 50)).toBeNull();
      expect(performance.now() - before).toBeGreaterThanOrEqual(49);
      const waiting = store.client.waitForStatusChange(id, 0, undefined, SOON);
      await store.client.raiseEvent(id, 'go');
      expect(await waiting, 'it ended without one').toBeNull();
    });

    it('has the value that the code has set, in a replay too', async () => {
      const seen: unknown[][] = [];
      await store.start(
        (runtime) =>
          runtime.registerOrchestration('counts', function* (ctx) {
            const own: unknown[] = [];
            seen.push(own);
            for (let i = 0; i < 3; i += 1) {
              own.push(ctx.getCustomStatus());
              ctx.setCustomStatus((ctx.getCustomStatus<number>() ?? 0) + 1);
              yield ctx.waitForEvent('next');
            }
          }),
        { cachedInstancesMax: 0 },
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'counts');
      for (let i = 0; i < 3; i += 1) {
        expect(await store.client.waitForStatusChange(id, i, undefined, SOON)).toMatchObject({ customStatus: i + 1 });
        await store.client.raiseEvent(id, 'next');
      }
      expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({
        customStatus: 3,
        customStatusVersion: 3,
      });
      expect(seen).toEqual([[undefined], [undefined, 1], [undefined, 1, 2], [undefined, 1, 2]]);
    });
  });
});
