import { describe, expect, it } from 'vitest';

import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  describe('tracing', () => {
    it('is silent while replaying', async () => {
      const lines: { level: string; message: string; fields: Readonly<Record<string, unknown>> }[] = [];
      const write = (level: string) => (fields: Readonly<Record<string, unknown>>, message: string) =>
        void lines.push({ level, message, fields });
      const replaying: boolean[][] = [];
      const runtime = await store.start(
        (r) =>
          r
            .registerActivity('traced', (ctx) => ctx.traceWarn('in the activity', { n: 1 }))
            .registerOrchestration('traces', function* (ctx) {
              const states: boolean[] = [];
              replaying.push(states);
              for (let i = 0; i < 4; i += 1) {
                states.push(ctx.isReplaying);
                ctx.traceInfo(`step ${i}`, { i, at: new Date(0) });
                ctx.setCustomStatus(i + 1);
                yield ctx.waitForEvent('next');
              }
              ctx.traceDebug('debug');
              ctx.traceError('error');
              yield ctx.scheduleActivity('traced');
            }),
        {
          cachedInstancesMax: 0,
          logLevel: 'debug',
          logger: { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') },
        },
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'traces');
      for (let i = 1; i <= 4; i += 1) {
        await store.client.waitForStatusChange(id, i - 1, undefined, SOON);
        await store.client.raiseEvent(id, 'next');
      }
      await store.client.waitForOrchestration(id, SOON);
      await runtime.shutdown();
      expect(replaying.length, 'it was replayed').toBeGreaterThan(4);
      // The flag is exact in the middle of a turn: code that was passed before is a replay, and the rest of the same
      // turn is not.
      for (const [pass, states] of replaying.entries()) {
        expect(states).toEqual(states.map((_, i) => i < Math.min(pass, 4)));
      }
      const own = { instanceId: id, executionId: 1, orchestrationName: 'traces' };
      expect(lines.filter(({ fields }) => fields.instanceId === id)).toEqual([
        ...[0, 1, 2, 3].map((i) => ({
          level: 'info',
          message: `step ${i}`,
          fields: { ...own, i, at: '1970-01-01T00:00:00.000Z' },
        })),
        { level: 'debug', message: 'debug', fields: own },
        { level: 'error', message: 'error', fields: own },
        { level: 'warn', message: 'in the activity', fields: { ...own, activityName: 'traced', attempt: 1, n: 1 } },
      ]);
    });
  });
});
