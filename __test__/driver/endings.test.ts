import { describe, expect, test } from 'vitest';

import { customStatusCount } from '../../js/driver/status.ts';
import { CancelledError, NondeterminismError } from '../../js/errors/errors.ts';
import { traceCount } from '../../js/tracing/trace.ts';
import { Script } from './scripted-engine.ts';

describe('cancelling an instance', () => {
  test('makes every pending yield throw, gives every operation up, and ends as cancelled', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx) {
      const unwatched = ctx.scheduleActivity('unwatched');
      ctx.spawn(function* () {
        try {
          yield ctx.waitForEvent('e');
        } catch (error) {
          log.push(`fiber: ${(error as Error).message}`);
        }
      });
      try {
        yield ctx.allSettled([ctx.scheduleActivity('a'), ctx.scheduleTimer('1h')]);
      } finally {
        log.push('main cleans');
        try {
          yield unwatched;
        } catch (error) {
          log.push(`unwatched: ${(error as Error).name}`);
        }
      }
    });
    script.turn();
    script.engine.cancel('enough');
    expect(script.turn()).toBe('cancelled');
    expect(log).toEqual(['main cleans', 'unwatched: CancelledError', 'fiber: cancelled: enough']);
    expect(script.engine.commands.slice(3)).toEqual(['cancel 2', 'cancel 3', 'cancel 4']);
    expect(script.engine.end?.kind).toBe('cancelled');
    expect(JSON.parse(script.engine.end?.payload ?? '')).toMatchObject({
      name: 'CancelledError',
      message: 'cancelled: enough',
    });
  });

  test('can be caught: a second request does not interrupt the cleanup, and the function may complete', () => {
    const script = new Script(function* (ctx) {
      try {
        yield ctx.scheduleActivity('work');
      } catch (error) {
        expect(error).toBeInstanceOf(CancelledError);
        return yield ctx.scheduleActivity('refund');
      }
    });
    script.turn();
    script.engine.cancel();
    expect(script.turn()).toBe('waiting');
    expect(script.engine.commands).toEqual(['activity work', 'cancel 2', 'activity refund']);
    script.engine.cancel('again');
    expect(script.turn()).toBe('waiting');
    script.engine.succeed(4, 'refunded');
    expect(script.output()).toBe('refunded');
  });

  test('differs from a CancelledError that the code itself throws', () => {
    const script = new Script(function* () {
      throw new CancelledError('mine');
    });
    expect(script.turn()).toBe('failed');
  });
});

describe('a mismatch', () => {
  test('suspends even if the code catches the exception, and names the line', () => {
    const log: string[] = [];
    const script = new Script(function* changedCode(ctx) {
      yield ctx.scheduleActivity('a');
      try {
        yield ctx.scheduleActivity('other');
      } catch (error) {
        log.push((error as Error).name);
      }
      log.push('goes on until it yields');
      yield ctx.scheduleTimer(1).cancel() as never;
      log.push('never');
      return 'done';
    });
    script.engine.mismatchAt = 1;
    script.turn();
    script.engine.succeed(2);
    expect(script.turn()).toBe('suspended');
    expect(log).toEqual(['NondeterminismError', 'goes on until it yields']);
    expect(script.engine.end).toBeNull();
    expect(script.engine.suspendedAt).toMatch(/^ {4}at .*changedCode .*endings\.test\.ts/);
    expect(script.engine.suspendedAt).not.toMatch(/\/js\//);
  });

  test('at the end of the code', () => {
    const script = new Script(function* () {
      return 1;
    });
    script.engine.mismatchAt = 0;
    expect(script.turn()).toBe('suspended');
    expect(script.engine.end).toBeNull();
  });

  test('at a wait shows where the main fiber waits', () => {
    const script = new Script(function* waits(ctx) {
      yield ctx.scheduleActivity('a');
    });
    script.engine.next = () => {
      throw new NondeterminismError('no', { report: { eventId: 3, recorded: 'a', attempted: 'b' } });
    };
    expect(script.turn()).toBe('suspended');
    expect(script.engine.suspendedAt).toMatch(/waits .*endings\.test\.ts/);
  });
});

describe('the end', () => {
  test('with an output that cannot be stored is a failure that names the path', () => {
    const script = new Script(function* () {
      return { deep: { fn() {} } };
    });
    expect(script.turn()).toBe('failed');
    expect(JSON.parse(script.engine.end?.payload ?? '')).toMatchObject({
      name: 'PayloadError',
      message: expect.stringContaining('output.deep.fn'),
    });
  });

  test('with an input that cannot be stored throws where it is handed over, and nothing is scheduled', () => {
    const script = new Script(function* (ctx) {
      try {
        ctx.scheduleActivity('a', { items: [() => 1] });
      } catch (error) {
        return (error as Error).message;
      }
    });
    expect(script.output()).toMatch(/input\.items\[0\]/);
    expect(script.engine.commands).toEqual([]);
  });
});

describe('the maps keyed by instance', () => {
  const code = function* (ctx: any): Generator<any, unknown, any> {
    ctx.setCustomStatus({ step: 1 });
    ctx.traceInfo('hello', { big: 1n, self: ctx });
    const seen = ctx.getCustomStatus();
    seen.step = 'changed outside';
    yield ctx.scheduleActivity('a');
    const kept = ctx.getCustomStatus();
    ctx.resetCustomStatus();
    return [kept, ctx.getCustomStatus() === undefined];
  };

  test('hold an entry while the instance lives, and none when it is done', () => {
    const script = new Script(code);
    script.turn();
    expect([customStatusCount(), traceCount()]).toEqual([1, 1]);
    expect(script.engine.traces).toMatchObject([
      { level: 'info', message: 'hello', fields: { instanceId: 'i', executionId: 1, big: '1' } },
    ]);
    script.engine.succeed(2);
    expect(script.output()).toEqual([{ step: 1 }, true]);
    expect(script.engine.statuses).toEqual(['{"step":1}', null]);
    expect([customStatusCount(), traceCount()]).toEqual([0, 0]);
  });

  test('hold none when it was dropped or suspended', () => {
    const dropped = new Script(code);
    dropped.turn();
    dropped.instance.release();
    const suspended = new Script(code);
    suspended.engine.mismatchAt = 0;
    expect(suspended.turn()).toBe('suspended');
    expect([customStatusCount(), traceCount()]).toEqual([0, 0]);
  });
});
