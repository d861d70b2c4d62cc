import { PayloadError, type Runtime, TimeoutError } from 'perdure';
import { describe, expect, it } from 'vitest';

import { aborted, Counter, deferred, rejection } from '../../support/async.ts';
import { historyViolations, kinds } from '../../support/history.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const quick = { initialInterval: 1, jitter: 0 };

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /** Runs an orchestration of this one activity, and returns its outcome. */
  async function ended(name: string, register: (runtime: Runtime) => void) {
    const runtime = await store.start((r) => {
      register(r);
      r.registerOrchestration(`of ${name}`, function* (ctx) {
        return yield ctx.scheduleActivity(name);
      });
    });
    const id = store.id();
    await store.client.startOrchestration(id, `of ${name}`);
    const { status, output, error } = await store.client.waitForOrchestration(id, SOON);
    const history = await store.client.getHistory(id);
    expect(historyViolations(history, status)).toEqual([]);
    return { runtime, output, error: error as any, history };
  }

  it('hand the latest details of any type to the next attempt', async () => {
    const details = { row: 7n, seen: new Set(['a']), at: new Date(5) };
    const seen: unknown[] = [];
    await ended('resumes', (r) =>
      r.registerActivity(
        'resumes',
        async (ctx) => {
          seen.push(ctx.lastHeartbeat);
          if (ctx.attempt === 4) return;
          if (ctx.attempt === 1) {
            ctx.heartbeat('first');
            ctx.heartbeat(details);
            // A later change of the object does not change the details that were sent. A heartbeat without details does
            // not remove them.
            details.seen.add('b');
            ctx.heartbeat();
          }
          if (ctx.attempt === 2) (ctx.lastHeartbeat as Set<string>[])[0] = new Set();
          if (ctx.attempt === 3) ctx.heartbeat(null);
          throw new Error('again');
        },
        { retry: { ...quick, maxAttempts: 4 } },
      ),
    );
    const told = { row: 7n, seen: new Set(['a']), at: new Date(5) };
    expect(seen).toEqual([undefined, told, told, null]);
  });

  it('do not pass to another activity or another instance', async () => {
    const seen: unknown[] = [];
    const register = (r: Runtime) =>
      r.registerActivity('tells', async (ctx) => {
        seen.push(ctx.lastHeartbeat);
        ctx.heartbeat(1);
      });
    await ended('tells', register);
    await store.client.startOrchestration(store.id(), 'of tells');
    const id = store.id();
    await store.client.startOrchestration(id, 'of tells');
    await store.client.waitForOrchestration(id, SOON);
    expect(seen).toEqual([undefined, undefined, undefined]);
  });

  it('throw where details cannot be stored, and that fails the attempt only if it is let out', async () => {
    const { output } = await ended('unstorable', (r) =>
      r.registerActivity('unstorable', async ({ heartbeat }) => {
        const error = await rejection((async () => heartbeat({ rows: [1, () => 2] }))());
        heartbeat('fine');
        return error;
      }),
    );
    expect(output).toBeInstanceOf(PayloadError);
    expect(output).toMatchObject({ path: 'details.rows[1]' });
  });

  it('cost little in a tight loop', async () => {
    const writes = () => store.runtime().metrics().commitWrites as number;
    const before = writes();
    await ended('busy', (r) =>
      r.registerActivity('busy', (ctx) => {
        for (let row = 0; row < 20_000; row += 1) ctx.heartbeat(row);
      }),
    );
    // The writes are the start with its first turn, the result, one for each second of the loop, and one more at its
    // end.
    expect(writes() - before).toBeLessThan(20);
  });

  it('abort the attempt when they stop; the attempt fails and is retried', async () => {
    const reasons: any[] = [];
    const { output, history } = await ended('silent', (r) =>
      r.registerActivity(
        'silent',
        async (ctx) => {
          if (ctx.attempt === 2) return ctx.lastHeartbeat;
          ctx.heartbeat('once');
          reasons.push(await aborted(ctx.signal));
          ctx.heartbeat('too late');
          return 'too late';
        },
        { heartbeatTimeout: 50, retry: quick },
      ),
    );
    expect(output).toBe('once');
    expect(reasons).toEqual([expect.any(TimeoutError)]);
    expect(reasons[0]).toMatchObject({
      message: "attempt 1 of activity 'silent' sent no heartbeat for longer than its heartbeatTimeout of 50 ms",
      timeoutMs: 50,
    });
    expect(kinds(history)).toContain('ActivityAttemptFailed');
  });

  it('are no business of an attempt that is over', async () => {
    const late = deferred();
    const told = deferred();
    const { output } = await ended('gone', (r) =>
      r.registerActivity(
        'gone',
        async (ctx) => {
          void late.promise.then(() => {
            ctx.heartbeat('too late');
            told.resolve();
          });
          if (ctx.attempt === 1) throw new Error('first');
          late.resolve();
          await told.promise;
          return ctx.lastHeartbeat;
        },
        // The timer of the first attempt must not fire again.
        { heartbeatTimeout: '1h', retry: quick },
      ),
    );
    expect(output).toBeUndefined();
  });
});

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('are passed to the next runtime of the instance', async () => {
    const seen: unknown[] = [];
    const begun = new Counter();
    const register = (runtime: Runtime) =>
      runtime
        .registerActivity('moves', async (ctx) => {
          seen.push([ctx.attempt, ctx.lastHeartbeat]);
          if (ctx.lastHeartbeat !== undefined) return ctx.lastHeartbeat;
          ctx.heartbeat(new Map([['row', 5]]));
          await store.settled();
          begun.add();
          await aborted(ctx.signal);
        })
        .registerOrchestration('moves', function* (ctx) {
          return yield ctx.scheduleActivity('moves');
        });
    const first = await store.start(register);
    const id = store.id();
    await store.client.startOrchestration(id, 'moves');
    await begun.reaches(1);
    await first.shutdown(0);
    await store.start(register, {}, await store.open());
    const told = new Map([['row', 5]]);
    expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual(told);
    expect(seen).toEqual([
      [1, undefined],
      [1, told],
    ]);
  });
});
