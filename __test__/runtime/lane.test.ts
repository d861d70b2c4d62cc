import { afterEach, describe, expect, test, vi } from 'vitest';
import type { ActivityFunction } from '../../js/activity/activity.ts';
import type { ActivityContext } from '../../js/activity/activity-context.ts';
import type { AttemptExtras } from '../../js/activity/activity-job.ts';
import type { AttemptFailure } from '../../js/activity/attempt.ts';
import { Frame } from '../../js/binding/frame.ts';
import { ABORT, ACTIVITY, DROP, LOG, type LogJob, type NativeJob, TURN } from '../../js/binding/jobs.ts';
import type { NativeLane } from '../../js/binding/lane.ts';
import type { Future } from '../../js/driver/future.ts';
import { NonRetryableError, RetryAfterError } from '../../js/errors/errors.ts';
import type { OrchestrationFunction } from '../../js/orchestration/definition.ts';
import { Lane, type LaneHost } from '../../js/runtime/lane.ts';
import { DEFAULT_LIMITS } from '../../js/values/limits.ts';
import { StoredTexts } from '../../js/values/stored-text.ts';

afterEach(() => {
  vi.useRealTimers();
});

/** The part of the addon that a lane works with: a list of jobs, and records of the results. */
class ScriptedNative {
  readonly jobs: NativeJob[] = [];
  readonly log: string[] = [];
  isParked = true;
  /** The result of each poll for a job. */
  readonly looks: string[] = [];
  lastActivity = 100;

  activity(
    name: string,
    input: unknown = null,
    more: { timeoutMs?: number; attempt?: number; extras?: AttemptExtras } = {},
  ): number {
    this.lastActivity += 1;
    const token = this.lastActivity;
    const facts = {
      instanceId: 'i',
      executionId: 1,
      orchestrationName: 'o',
      version: '1.0.0',
      tags: null,
      operation: 7,
      incarnationHigh: 0,
      incarnationLow: 0,
      isUntried: false,
      extras: null,
    };
    this.jobs.push({
      kind: ACTIVITY,
      token,
      name,
      input: JSON.stringify(input),
      attempt: 1,
      timeoutMs: Number.POSITIVE_INFINITY,
      ...facts,
      ...more,
    });
    return token;
  }

  nextJob(looksAgain = false): NativeJob | null {
    const job = this.jobs.shift() ?? null;
    this.looks.push(job === null ? (looksAgain ? 'dry' : 'parked') : 'job');
    this.isParked = job === null && !looksAgain;
    return job;
  }

  pause(): void {}

  readonly frame = new Frame();
  /** The calls of a turn: an instance waits as soon as it is asked. */
  readonly calls = {
    describe: (instance: number): string => {
      this.frame.put(0, 1, 0);
      return this.frame.join(`i${instance}`, 'o', '1.0.0', null, null, null, null);
    },
    next: (): string | null => null,
    rest: () => false,
    finish: (instance: number, text: string): void => {
      this.log.push(`finish ${instance} ${this.frame.kind} ${this.frame.text(text, 0)}`);
    },
    suspend: (instance: number, source: string): void => {
      this.log.push(`suspend ${instance} ${source.split('\n')[0]}`);
    },
  };

  heartbeat(activity: number, details: string): void {
    this.log.push(`heartbeat ${activity} ${details}`);
  }

  completeActivity(activity: number, output: string | null): boolean {
    this.log.push(`complete ${activity} ${output}`);
    return this.isParked && this.jobs.length > 0;
  }

  failActivity(activity: number, { error, errorName, isNonRetryable, retryAfterMs }: AttemptFailure): boolean {
    const { message } = JSON.parse(error) as { message: string };
    this.log.push(`fail ${activity} ${errorName}: ${message} ${isNonRetryable} ${retryAfterMs}`);
    return this.isParked && this.jobs.length > 0;
  }
}

function setUp(
  activities: Record<string, ActivityFunction>,
  orchestration?: OrchestrationFunction,
  more: Partial<LaneHost> = {},
) {
  const native = new ScriptedNative();
  const reports: string[] = [];
  const logs: string[] = [];
  const host = {
    // The behaviour of a drain must not depend on the speed of the machine.
    turnSliceMs: Number.POSITIVE_INFINITY,
    looksMax: 4,
    workerId: 'w',
    client: null as never,
    testDoubles: null,
    telemetry: undefined,
    sourceStacks: false,
    texts: new StoredTexts(),
    limits: DEFAULT_LIMITS,
    recordedOptions: () => null,
    activityFunction: (name: string) => activities[name],
    activitiesLike: () => ['charge'],
    orchestration: () => (orchestration === undefined ? undefined : { fn: orchestration }),
    log: (level: string, message: string) => void logs.push(`${level} ${message}`),
    logLine: ({ level, message }: LogJob) => void logs.push(`${level} ${message}`),
    instanceEnded: () => {},
    report: (error: unknown, what: string) => void reports.push(`${what}: ${(error as Error).message}`),
    ...more,
  } as LaneHost;
  const lane = new Lane(native as unknown as NativeLane, host);
  lane.open();
  return { native, lane, reports, logs };
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Returns the job of a log line. */
function logged(message: string): LogJob {
  return { kind: LOG, level: 'info', message, fields: null, isInternal: false, error: null, operation: 0 };
}

describe('a lane', () => {
  test('runs an activity and hands its result over, whether it is asynchronous or not', async () => {
    const { native, lane } = setUp({
      plus: async (_ctx, n: number) => n + 1,
      now: (_ctx, n: number) => n * 2,
      none: async () => {},
    });
    native.activity('plus', 1);
    native.activity('now', 4);
    native.activity('none');
    lane.wake();
    await settled();
    expect(native.log.toSorted()).toEqual(['complete 101 2', 'complete 102 8', 'complete 103 null']);
    expect(lane.sizes).toEqual({ instances: 0, activities: 0 });
  });

  test('tells two attempts apart whose tokens are 2^32 from each other', async () => {
    const { native, lane } = setUp({ plus: async (_ctx, n: number) => n + 1 });
    native.activity('plus', 1);
    native.lastActivity = 2 ** 32 + 100;
    native.activity('plus', 2);
    lane.wake();
    expect(lane.sizes.activities).toBe(2);
    await settled();
    expect(native.log.toSorted()).toEqual(['complete 101 2', 'complete 4294967397 3']);
  });

  test('reports the outcome of a failure: retried, final, later', async () => {
    const { native, lane } = setUp({
      plain: async () => {
        throw new RangeError('r');
      },
      sync: () => {
        throw new NonRetryableError('n');
      },
      later: async () => {
        throw new RetryAfterError('3s', 'l');
      },
      text: async () => Promise.reject('t'),
      output: async () => ({ f() {} }),
      thenable: () => ({
        get then(): never {
          throw new TypeError('getter');
        },
      }),
    });
    for (const name of ['plain', 'sync', 'later', 'text', 'output', 'thenable', 'chrage']) native.activity(name);
    lane.wake();
    await settled();
    expect(native.log.toSorted()).toEqual([
      'fail 101 RangeError: r false null',
      'fail 102 NonRetryableError: n true null',
      'fail 103 RetryAfterError: l false 3000',
      expect.stringMatching(/^fail 104 .*t false null$/),
      expect.stringMatching(/^fail 105 PayloadError: output\.f .* true null$/),
      'fail 106 TypeError: getter false null',
      "fail 107 NotRegisteredError: activity 'chrage' is not registered in this runtime; " +
        "did you mean 'charge'? true null",
    ]);
  });

  test('pushes an abort into the signal, and takes one that came before the signal was read', async () => {
    const contexts: ActivityContext[] = [];
    const { native, lane } = setUp({
      slow: (ctx) => {
        contexts.push(ctx);
        return new Promise(() => {});
      },
    });
    const [first, second] = [native.activity('slow'), native.activity('slow')];
    lane.wake();
    const reasons: string[] = [];
    contexts[0]?.signal.addEventListener('abort', function (this: AbortSignal) {
      reasons.push((this.reason as Error).name);
    });
    native.jobs.push(
      { kind: ABORT, token: first, reason: 'cancelled' },
      { kind: ABORT, token: second, reason: 'shutdown' },
    );
    lane.wake();
    expect(reasons).toEqual(['CancelledError']);
    expect((contexts[1]?.signal.reason as Error).name).toBe('RuntimeStateError');
    expect(lane.sizes.activities).toBe(0);
  });

  test('gives each abort its typed reason', () => {
    const contexts: ActivityContext[] = [];
    const { native, lane } = setUp({ slow: (ctx) => (contexts.push(ctx), new Promise(() => {})) });
    const reasons = ['cancelled', 'shutdown', 'leaseLost'] as const;
    for (const reason of reasons) native.jobs.push({ kind: ABORT, token: native.activity('slow'), reason });
    lane.wake();
    expect(
      contexts.map(({ signal }) => `${(signal.reason as Error).name}: ${(signal.reason as Error).message}`),
    ).toEqual([
      'CancelledError: cancelled: the orchestration no longer waits for this activity',
      "RuntimeStateError: attempt 1 of activity 'slow' was aborted: the runtime is shutting down",
      "RuntimeStateError: attempt 1 of activity 'slow' was aborted: the runtime has lost its lease",
    ]);
  });

  describe('the timeouts of an attempt', () => {
    afterEach(() => void vi.useRealTimers());

    /** Returns the messages about an attempt that never settles, after `ms`. */
    async function after(ms: number, more: { timeoutMs?: number; extras?: AttemptExtras }) {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
      const { native, lane } = setUp({ slow: () => new Promise(() => {}) });
      native.activity('slow', null, more);
      lane.wake();
      await settled();
      vi.advanceTimersByTime(ms - 1);
      expect(native.log).toEqual([]);
      vi.advanceTimersByTime(1);
      const calls = native.log.splice(0);
      vi.advanceTimersByTime(1_000_000);
      expect(native.log, 'once').toEqual([]);
      expect(vi.getTimerCount()).toBe(0);
      return calls;
    }

    test('the one that is over first fails it, and only a total one is the last', async () => {
      const one = "fail 101 TimeoutError: attempt 1 of activity 'slow'";
      const all =
        "fail 101 TimeoutError: activity 'slow' took longer, with all its attempts, " +
        'than its totalTimeout of 9000 ms true null';
      const total = { totalTimeoutMs: 9_000, totalLeftMs: 500 };
      expect(await after(400, { timeoutMs: 400, extras: total })).toEqual([
        `${one} took longer than its timeout of 400 ms false null`,
      ]);
      expect(await after(500, { timeoutMs: 500, extras: total })).toEqual([all]);
      expect(await after(500, { extras: total })).toEqual([all]);
      const silent = { ...total, heartbeatTimeoutMs: 30 };
      expect(await after(30, { timeoutMs: 400, extras: silent })).toEqual([
        `${one} sent no heartbeat for longer than its heartbeatTimeout of 30 ms false null`,
      ]);
    });

    test('a heartbeat has that of silence begin anew, until the attempt is over', async () => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
      let context: ActivityContext | undefined;
      const { native, lane } = setUp({ slow: (ctx) => ((context = ctx), new Promise(() => {})) });
      native.activity('slow', null, { extras: { heartbeatTimeoutMs: 100, lastHeartbeat: '{"row":1}' } });
      lane.wake();
      await settled();
      expect(context?.lastHeartbeat).toEqual({ row: 1 });
      for (let n = 0; n < 5; n += 1) {
        vi.advanceTimersByTime(99);
        context?.heartbeat(n === 2 ? { row: n } : undefined);
      }
      expect(native.log).toEqual(['heartbeat 101 {"row":2}']);
      vi.advanceTimersByTime(100);
      expect(native.log).toHaveLength(2);
      context?.heartbeat('too late');
      expect(vi.getTimerCount()).toBe(0);
      expect(native.log).toHaveLength(2);
    });

    test('none is left of an attempt that has settled or was told to stop', async () => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
      const { native, lane } = setUp({ quick: async () => 1, slow: () => new Promise(() => {}) });
      const more = { timeoutMs: 50, extras: { heartbeatTimeoutMs: 30 } };
      native.activity('quick', null, more);
      native.jobs.push({ kind: ABORT, token: native.activity('slow', null, more), reason: 'cancelled' });
      lane.wake();
      await settled();
      expect(native.log).toEqual(['complete 101 1']);
      expect(vi.getTimerCount()).toBe(0);
    });

    test('nothing runs when nothing is left of a total one', () => {
      const { native, lane } = setUp({ never: () => 'ran' });
      native.activity('never', null, { extras: { totalTimeoutMs: 5, totalLeftMs: 0 } });
      lane.wake();
      expect(native.log).toEqual([expect.stringMatching(/^fail 101 TimeoutError: .*totalTimeout of 5 ms true null$/)]);
    });

    test('nothing runs when an attempt has waited for too long, whatever its activity', () => {
      const { native, lane } = setUp({ never: () => 'ran' });
      for (const name of ['never', 'unregistered'])
        native.activity(name, null, { extras: { scheduleToStartTimeoutMs: 5, queue: 'gpu', totalLeftMs: 9 } });
      lane.wake();
      const waited = (name: string) =>
        `TimeoutError: attempt 1 of activity '${name}' waited in queue 'gpu' for longer than its ` +
        'scheduleToStartTimeout of 5 ms true null';
      expect(native.log).toEqual([`fail 101 ${waited('never')}`, `fail 102 ${waited('unregistered')}`]);
    });
  });

  test('fails an attempt that timed out, and ignores its later result', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    let context: ActivityContext | undefined;
    const { native, lane } = setUp({
      slow: (ctx) => {
        context = ctx;
        return new Promise(() => {});
      },
      quick: async () => 1,
    });
    native.activity('slow', null, { timeoutMs: 50 });
    native.activity('quick', null, { timeoutMs: 50 });
    lane.wake();
    await settled();
    vi.advanceTimersByTime(60);
    expect(native.log).toEqual([
      'complete 102 1',
      expect.stringMatching(/^fail 101 TimeoutError: .*50 ms false null$/),
    ]);
    expect(context?.signal.aborted).toBe(true);
  });

  test('gives the event loop back when its slice is used up, also to activities that settle at once', async () => {
    const native = { left: 20_000 };
    const { native: scripted, lane } = setUp({ now: async () => 1 }, undefined, { turnSliceMs: 1 });
    const nextJob = scripted.nextJob.bind(scripted);
    scripted.nextJob = (looksAgain) => {
      if (native.left > 0 && scripted.jobs.length === 0) {
        native.left -= 1;
        scripted.activity('now');
      }
      return nextJob(looksAgain);
    };
    let turns = 0;
    const watch = (): void => {
      turns += 1;
      if (native.left > 0) setImmediate(watch);
    };
    setImmediate(watch);
    lane.wake();
    while (native.left > 0) await settled();
    expect(turns).toBeGreaterThan(5);
  });

  test('polls a few times before it parks, and finds new jobs without a wake', async () => {
    const { native, lane } = setUp({ now: async () => 1 });
    const dry = async () => {
      while (!native.isParked) await settled();
      return native.looks.splice(0);
    };
    native.activity('now');
    lane.wake();
    const looks = await dry();
    expect(looks[0]).toBe('job');
    expect(looks.at(-1)).toBe('parked');
    expect(looks.slice(1, -1)).toEqual(['dry', 'dry', 'dry', 'dry']);
    // A job that arrives meanwhile is found, and the same number of polls follows it.
    native.activity('now');
    lane.wake();
    await settled();
    native.activity('now');
    await dry();
    expect(native.log).toEqual(['complete 101 1', 'complete 102 1', 'complete 103 1']);
    // Woken without a job, the lane parks at once.
    lane.wake();
    expect(native.looks).toEqual(['parked']);
  });

  test('drains new jobs of a settled activity before the next poll', async () => {
    const settle: (() => void)[] = [];
    const { native, lane } = setUp({
      waits: () => new Promise<void>((resolve) => settle.push(resolve)),
      now: async () => 2,
    });
    native.activity('waits');
    lane.wake();
    expect(native.isParked).toBe(false);
    native.completeActivity = (activity, output) => {
      native.log.push(`complete ${activity} ${output}`);
      if (activity === 101) native.activity('now');
      return false;
    };
    settle[0]?.();
    // Only microtasks run here: no turn of the event loop.
    for (let n = 0; n < 20; n += 1) await null;
    expect(native.log).toEqual(['complete 101 null', 'complete 102 2']);
    while (!native.isParked) await settled();
  });

  test('drives instances, forgets them when they end or are dropped, and hands log lines on', async () => {
    const { native, lane, logs } = setUp({}, function* (ctx) {
      if (ctx.instanceId === 'i1') return 'done';
      yield (ctx as never as { waitForEvent(name: string): Future<any> }).waitForEvent('e');
    });
    native.jobs.push({ kind: TURN, token: 1 }, { kind: TURN, token: 2 }, logged('hello'));
    lane.wake();
    expect(native.log).toEqual(['finish 1 0 "done"']);
    expect(lane.sizes.instances).toBe(1);
    native.jobs.push({ kind: DROP, token: 2 });
    lane.wake();
    expect(lane.sizes.instances).toBe(0);
    expect(logs).toEqual(['info hello']);
  });

  test('suspends an instance without registered code or with a broken turn, and runs the others', async () => {
    const { native, lane, reports } = setUp({ ok: async () => 1 });
    native.jobs.push({ kind: TURN, token: 1 });
    native.activity('ok');
    lane.wake();
    await settled();
    expect(native.log).toEqual([expect.stringMatching(/^suspend 1 .*not registered/), 'complete 101 1']);
    const broken = setUp({}, function* (ctx) {
      yield ctx.waitForEvent('e');
    });
    broken.native.calls.next = () => {
      throw new Error('a bug');
    };
    broken.native.jobs.push({ kind: TURN, token: 1 });
    broken.lane.wake();
    expect(broken.native.log).toEqual([expect.stringMatching(/^suspend 1 internal error: Error: a bug/)]);
    expect([...reports, ...broken.reports]).toEqual([
      "an instance cannot run on this runtime: orchestration 'o' 1.0.0 is not registered here",
      "the turn of instance 'i1' failed: a bug",
    ]);
    expect(broken.lane.sizes.instances).toBe(0);
  });

  test('takes jobs only once it is open, and none after it was closed', async () => {
    const { native, reports } = setUp({});
    const late = new Lane(
      native as unknown as NativeLane,
      { turnSliceMs: 5, report: () => {}, logLine: () => reports.push('log') } as never,
    );
    native.jobs.push(logged('m'));
    late.wake();
    expect(reports).toEqual([]);
    late.open();
    expect(reports).toEqual(['log']);
    late.close();
    native.jobs.push(logged('m'));
    late.wake();
    expect(native.jobs).toHaveLength(1);
  });
});
