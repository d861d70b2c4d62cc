import { describe, expect, test } from 'vitest';

import type { Future } from '../../js/driver/future.ts';
import type { OrchestrationContext } from '../../js/orchestration/orchestration-context.ts';
import { type Block, book, undoAll } from './cleanup-blocks.ts';
import { Script } from './scripted-engine.ts';

describe('cancelGrace', () => {
  const endless = function* (ctx: OrchestrationContext): Block {
    try {
      yield ctx.all([book(ctx, [], 'a'), ctx.waitForEvent('never')]);
    } finally {
      yield ctx.scheduleActivity('undo main');
    }
  };

  test('ends an instance whose cleanup takes longer', () => {
    const script = new Script(endless, undefined, undefined, undefined, { cancelGraceMs: 500 });
    script.turn();
    script.engine.cancel('stop');
    expect(script.turn()).toBe('waiting');
    expect(script.engine.commands).toEqual(['activity a', 'grace +500', 'cancel 2', 'activity undo a']);
    expect(script.engine.lastAwaited.timers).toEqual([3]);
    script.engine.due(3);
    expect(script.turn()).toBe('cancelled');
    expect(JSON.parse(script.engine.end?.payload ?? '')).toMatchObject({
      message: 'cancelled: stop',
      cause: { name: 'TimeoutError', message: expect.stringContaining('grace period') },
    });
  });

  test('is not waited for where the cleanup can never end', () => {
    const log: string[] = [];
    const script = new Script(
      function* (ctx): Block {
        const waitsFor = function* (other: () => Future<unknown>): Block {
          try {
            yield other();
          } finally {
            log.push('cleaned');
          }
        };
        const first: Future<unknown> = ctx.spawn(() => waitsFor(() => second));
        const second: Future<unknown> = ctx.spawn(() => waitsFor(() => first));
        yield ctx.waitForEvent('never');
      },
      undefined,
      undefined,
      undefined,
      { cancelGraceMs: 500 },
    );
    script.turn();
    script.engine.cancel();
    expect(script.turn()).toBe('cancelled');
    expect(log).toEqual(['cleaned', 'cleaned']);
  });

  test('is no matter where the cleanup is in time, nor to a second request', () => {
    const script = new Script(endless, undefined, undefined, undefined, { cancelGraceMs: 500 });
    script.turn();
    script.engine.cancel('stop');
    script.turn();
    script.engine.cancel('again');
    expect(undoAll(script)).toBe('cancelled');
    expect(script.engine.commands.filter((command) => command.startsWith('grace'))).toEqual(['grace +500']);
    expect(JSON.parse(script.engine.end?.payload ?? '')).not.toHaveProperty('cause');
  });

  test('also ends code that catches the error and continues', () => {
    const script = new Script(
      function* (ctx): Block {
        for (;;) {
          try {
            yield ctx.waitForEvent('never');
          } catch {
            // continues
          }
        }
      },
      undefined,
      undefined,
      undefined,
      { cancelGraceMs: 0 },
    );
    script.turn();
    script.engine.cancel();
    script.turn();
    script.engine.due(2);
    expect(script.turn()).toBe('cancelled');
  });
});
