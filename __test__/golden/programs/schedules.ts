import { defineOrchestration } from 'perdure';

import { eventually } from '../../support/async.ts';
import type { Program } from '../stage.ts';
import { ended } from './shared.ts';

const visit = defineOrchestration('schedules-visit', function* (ctx, how: string) {
  yield* ctx.waitForEvent('end');
  if (how === 'fails') throw new Error('on purpose');
  return how;
});

const spec = (how: string, more: object = {}) => ({
  times: { kind: 'at', atMs: [Date.UTC(2100, 0, 1)] },
  start: { name: 'schedules-visit', version: '1.0.0', input: how, id: 'schedules-visit', tags: { by: 'schedule' } },
  overlap: 'skip',
  catchUpMs: 3_600_000,
  jitterMs: 1_000,
  pauseOnFailure: true,
  ...more,
});

/** A schedule itself: each of its updates, and runs that end in each way. */
export const schedules: Program = {
  name: 'perdure.schedule',
  code: [visit],
  instances: { 'perdure.schedule/golden': ended },
  async record(stage) {
    const { client } = stage;
    const id = 'perdure.schedule/golden';
    const update = (name: string, input?: object) => client.update(id, `perdure.schedule.${name}`, input);
    const start = { name: 'perdure.schedule' };
    await stage.start(schedules.code);
    let settled = 0;
    /** Waits until the schedule sleeps until its next due time. */
    const sleeps = async (): Promise<void> => {
      settled += 1;
      await eventually(20_000, `sleep ${settled} of the schedule`, async () => {
        const kinds = (await client.getHistory(id)).map(({ kind }) => kind);
        return kinds.filter((kind) => kind === 'TimerCreated').length === settled && kinds.at(-1) === 'TimerCreated';
      });
    };
    const told = async (outcome: string): Promise<void> => {
      for await (const { value } of client.watchState<any>(id, 'schedule'))
        if (value.recent.some((due: { outcome: string }) => due.outcome === outcome)) return;
    };
    const day = (n: number): number => Date.UTC(2001, 0, n);
    const end = (n: number) => client.raiseEvent(`schedules-visit/2001-01-0${n}T00:00:00Z`, 'end');

    await client.updateWithStart(id, 'perdure.schedule.set', spec('returns'), { start });
    await sleeps();
    await update('run', { dues: [day(1)] });
    await sleeps();
    await end(1);
    await sleeps();
    await update('run', { dues: [day(2), day(3)], overlap: 'buffer' });
    await sleeps();
    // While it is paused, it looks for no due times, so the end of a run comes between no other events.
    await update('pause', { by: 'client', note: 'enough' });
    await update('run', { dues: [day(4)], overlap: 'cancelPrevious' });
    await told('cancelled');
    await update('resume');
    await sleeps();
    await end(4);
    await sleeps();
    await update('set', spec('fails', { maxRuns: 9 }));
    await sleeps();
    await update('run', { dues: [day(5)] });
    await sleeps();
    await end(5);
    await told('failed');
    await update('delete');
    await stage.end(id);
  },
};

/** The watcher of a run. */
export const scheduleRun: Program = {
  name: 'perdure.schedule.run',
  code: [visit],
  instances: { 'perdure.schedule.run/golden': ended },
  async record(stage) {
    const { client } = stage;
    const id = 'perdure.schedule.run/golden';
    const start = { name: 'schedules-visit', input: 'returns', id: 'schedules-run' };
    await stage.start(scheduleRun.code);
    const input = { schedule: 'perdure.schedule/none', dueMs: 0, runId: 'schedules-run/0', start };
    await client.startOrchestration(id, 'perdure.schedule.run', input);
    await stage.recorded(id, 'ChildScheduled');
    await client.raiseEvent(id, 'perdure.schedule.run.stop');
    await stage.end(id);
  },
};
