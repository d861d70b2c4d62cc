// Logs with pino, as users have it: lines of orchestrations and activities, and lines of the runtime itself.

import { LimitError } from 'perdure';
import pino from 'pino';
import { describe, expect, it } from 'vitest';

import { STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';

/** The levels of pino. */
const LEVELS = { debug: 20, info: 30, warn: 40, error: 50 };

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('pino receives every line with its fields', async () => {
    const lines: Record<string, unknown>[] = [];
    const logger = pino(
      { level: 'debug', base: { service: 'shop' } },
      { write: (line: string) => void lines.push(JSON.parse(line)) },
    );
    await store.start(
      (runtime) =>
        runtime
          .registerActivity('charge', (ctx, total) => {
            ctx.traceInfo('charging', { total });
            if (ctx.attempt === 1) throw new RangeError('the bank is down');
          })
          .registerOrchestration('order', function* (ctx, total) {
            ctx.traceDebug('begun');
            yield ctx.scheduleActivity('charge', total, { retry: { initialInterval: 1 } });
            for (;;) yield ctx.scheduleActivity('charge', total, { retry: { initialInterval: 1 } });
          }),
      { logger, logLevel: 'debug', limits: { historyEvents: 20 }, workerName: 'till' },
    );
    const id = store.id('order');
    await store.client.startOrchestration(id, 'order', 12);
    await store.suspended(id);
    // The line reaches the main thread in the same way as the report of the suspension, and before it.
    expect(store.errors.splice(0)).toHaveLength(1);
    const of = { service: 'shop', instanceId: id, executionId: 1, orchestrationName: 'order' };
    const own = lines.filter((line) => line.instanceId === id);
    expect(own[0]).toMatchObject({ level: LEVELS.debug, msg: 'begun', ...of });
    expect(own[1]).toMatchObject({
      level: LEVELS.info,
      msg: 'charging',
      ...of,
      activityName: 'charge',
      attempt: 1,
      total: 12,
    });
    expect(own[2]).toMatchObject({
      level: LEVELS.warn,
      msg: expect.stringMatching(/^attempt 1 of 3 of activity 'charge' .*: RangeError: the bank is down$/),
      ...of,
      activityName: 'charge',
      attempt: 1,
    });
    expect(own[3]).toMatchObject({
      level: LEVELS.info,
      msg: 'charging',
      ...of,
      activityName: 'charge',
      attempt: 2,
      total: 12,
    });
    expect(own.at(-1)).toMatchObject({
      level: LEVELS.error,
      msg: expect.stringContaining(`instance '${id}' is suspended: `),
      ...of,
    });
    expect((await store.client.getStatus(id))?.error).toBeInstanceOf(LimitError);
    await store.client.terminateInstance(id);
    await store.client.waitForOrchestration(id, SOON);
  });
});
