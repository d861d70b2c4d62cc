// The steps of a replay: the option `onEvent`, and a replay that ends early with the option `until`.

import { defineOrchestration, type HistoryEvent, type HistoryExport } from 'perdure';
import { replay, replayFiles, TestRuntime } from 'perdure/testing';
import { describe, expect, it } from 'vitest';

describe('the steps of a replay', () => {
  const stepped = defineOrchestration('stepped', function* stepping(ctx, n: number) {
    const picked = yield ctx.scheduleActivity('pick', n);
    yield ctx.scheduleTimer(1);
    const { by } = yield ctx.waitForEvent('approved');
    return [picked, by];
  });

  /** Returns the export of an ended execution. */
  async function exportStepped(): Promise<HistoryExport> {
    await using test = await TestRuntime.create();
    test.register(stepped).activity('pick', (_, n) => `picked ${n}`);
    const handle = await test.start(stepped, 3);
    await test.advance('1s');
    await handle.raiseEvent('approved', { by: 'ada' });
    await handle.result();
    return test.client.exportHistory(handle.id);
  }

  it('are all its events, in order, with their values', async () => {
    const exported = await exportStepped();
    const events: HistoryEvent[] = [];
    const { executions } = replay(exported, stepped, { onEvent: (event) => void events.push(event) });
    expect(executions).toMatchObject([{ outcome: 'completed', events: 7 }]);
    expect(events.map(({ eventId, kind, payload }) => [eventId, kind, payload])).toEqual([
      [1, 'ExecutionStarted', 3],
      [2, 'ActivityScheduled', 3],
      [3, 'ActivityCompleted', 'picked 3'],
      [4, 'TimerCreated', undefined],
      [5, 'TimerFired', undefined],
      [6, 'EventReceived', { by: 'ada' }],
      [7, 'ExecutionCompleted', ['picked 3', 'ada']],
    ]);
    expect(events[4]?.time).toEqual(new Date(exported.events[4]?.timeMs ?? 0));
  });

  it('are reported on the stack of the code that asks, before the code gets a result', async () => {
    const seen: string[] = [];
    const traced = defineOrchestration('stepped', function* stepping(ctx, n: number) {
      seen.push('begins');
      const picked = yield ctx.scheduleActivity('pick', n);
      seen.push('is handed something');
      yield ctx.scheduleTimer(1);
      yield ctx.waitForEvent('approved');
      return [picked, 'ada'];
    });
    replay(await exportStepped(), traced, {
      onEvent({ eventId }) {
        seen.push(`${eventId}${/ stepping /.test(new Error().stack ?? '') ? ' asked for' : ''}`);
      },
    });
    expect(seen).toEqual(['1', 'begins', '2 asked for', '3', 'is handed something', '4 asked for', '5', '6', '7']);
  });

  it.each([
    [1, 2, 'waiting', [{ kind: 'activity', eventId: 2, name: 'pick' }]],
    [2, 2, 'waiting', [{ kind: 'activity', eventId: 2, name: 'pick' }]],
    [3, 4, 'waiting', [{ kind: 'timer', eventId: 4, fireAt: expect.any(Date) }]],
    [5, 5, 'waiting', [{ kind: 'event', name: 'approved' }]],
    [6, 7, 'completed', []],
    [100, 7, 'completed', []],
  ])('end where the code waits with event %i behind it', async (until, events, outcome, pending) => {
    const { executions } = replay(await exportStepped(), stepped, { until });
    expect(executions).toMatchObject([{ events, outcome, pending }]);
  });

  it('end with an error that onEvent throws, which the code cannot catch', async () => {
    const exported = await exportStepped();
    const catching = defineOrchestration('stepped', function* (ctx, n: number) {
      try {
        yield ctx.scheduleActivity('pick', n);
      } catch {
        throw new Error('it is no business of the code');
      }
    });
    for (const at of [1, 2, 3]) {
      const onEvent = ({ eventId }: HistoryEvent): void => {
        if (eventId === at) throw new RangeError(`stop at ${at}`);
      };
      expect(() => replay(exported, catching, { onEvent })).toThrow(new RangeError(`stop at ${at}`));
    }
  });

  it('are of one execution', async () => {
    const exported = await exportStepped();
    expect(() => replay([exported, { ...exported, executionId: 2 }], stepped, { until: 2 })).toThrow(
      "'until' needs one execution, and there are 2",
    );
    expect(() => replay(exported, stepped, { until: 0 })).toThrow(TypeError);
    expect(() => replay(exported, stepped, { onEvent: 3 as never })).toThrow('onEvent must be a function, got 3');
    await expect(replayFiles('.', stepped, { until: 2 } as never)).rejects.toThrow('unknown option `until`');
  });
});
