// Fibers that are still running when the main one has ended.

import { describe, expect, test } from 'vitest';

import type { OnEnd } from '../../js/driver/cancelling.ts';
import type { OrchestrationFunction } from '../../js/orchestration/definition.ts';
import { Script } from './scripted-engine.ts';

type Block = Generator<any, any, any>;

function scriptOf(onEnd: OnEnd | undefined, fn: OrchestrationFunction): Script {
  return new Script(fn, undefined, undefined, undefined, onEnd === undefined ? {} : { onEnd });
}

/** Returns a main function that leaves a fiber behind, whose cleanup takes a step. */
function leaving(log: string[], end: 'returns' | 'throws' | 'continues' = 'returns'): OrchestrationFunction {
  return function* (ctx): Block {
    ctx.spawn(function* (): Block {
      try {
        yield ctx.scheduleActivity('work');
        log.push('worked');
      } finally {
        yield ctx.scheduleActivity('undo');
        log.push('undone');
      }
    });
    yield ctx.scheduleActivity('main');
    if (end === 'throws') throw new RangeError('mine');
    if (end === 'continues') return yield* ctx.continueAsNew(2);
    return 'output';
  };
}

describe('fibers that are left', () => {
  test.each([['drop' as const], [undefined]])('are dropped: %s', (onEnd) => {
    const log: string[] = [];
    const script = scriptOf(onEnd, leaving(log));
    script.turn();
    script.engine.succeed(2);
    expect(script.output()).toBe('output');
    expect(log).toEqual([]);
  });

  test.each(['returns', 'throws', 'continues'] as const)('are joined, when the function %s', (end) => {
    const log: string[] = [];
    const script = scriptOf('join', leaving(log, end));
    script.turn();
    script.engine.succeed(2);
    expect(script.turn()).toBe('waiting');
    script.engine.succeed(3);
    expect(script.turn()).toBe('waiting');
    script.engine.succeed(4);
    expect(script.turn()).toBe({ returns: 'completed', throws: 'failed', continues: 'continued' }[end]);
    expect(log).toEqual(['worked', 'undone']);
    expect(script.engine.commands).toEqual(['activity main', 'activity work', 'activity undo']);
  });

  test.each(['returns', 'throws', 'continues'] as const)('are cancelled, when the function %s', (end) => {
    const log: string[] = [];
    const script = scriptOf('cancel', leaving(log, end));
    script.turn();
    script.engine.succeed(2);
    expect(script.turn()).toBe('waiting');
    script.engine.succeed(5);
    expect(script.turn()).toBe({ returns: 'completed', throws: 'failed', continues: 'continued' }[end]);
    expect(log).toEqual(['undone']);
    expect(script.engine.commands).toEqual(['activity main', 'activity work', 'cancel 3', 'activity undo']);
  });

  test('are cancelled with their own fibers, after uncancellable blocks', () => {
    const log: string[] = [];
    const script = scriptOf('cancel', function* (ctx): Block {
      ctx.spawn(function* (): Block {
        ctx.uncancellable(function* (): Block {
          ctx.spawn(function* (): Block {
            yield ctx.scheduleActivity('inner');
            log.push('inner');
          });
          yield ctx.scheduleActivity('block');
          log.push('block');
        });
        yield ctx.waitForEvent('never');
      });
      yield ctx.scheduleActivity('main');
    });
    script.turn();
    script.engine.succeed(2);
    script.turn();
    const at = (name: string) => script.engine.commands.indexOf(`activity ${name}`) + 2;
    script.engine.succeed(at('block'));
    expect(script.turn()).toBe('waiting');
    script.engine.succeed(at('inner'));
    expect(script.turn()).toBe('completed');
    expect(log).toEqual(['block', 'inner']);
  });

  test.each(['join', 'cancel'] as const)('fail the instance when one of them fails: %s', (onEnd) => {
    const script = scriptOf(onEnd, function* (ctx): Block {
      ctx.spawn(function* (): Block {
        try {
          yield ctx.scheduleActivity('work');
        } finally {
          throw new RangeError('no');
        }
      });
      yield ctx.scheduleActivity('main');
      return 'output';
    });
    script.turn();
    script.engine.succeed(2);
    script.engine.succeed(3);
    expect(script.turn()).toBe('failed');
    expect(JSON.parse(script.engine.end?.payload ?? '')).toMatchObject({ name: 'RangeError', message: 'no' });
  });

  test('are a deadlock if they wait forever and are joined', () => {
    const script = scriptOf('join', function* (ctx): Block {
      ctx.spawn(function* (): Block {
        yield ctx.channel().receive();
      });
      yield ctx.scheduleActivity('main');
    });
    script.turn();
    script.engine.succeed(2);
    expect(script.turn()).toBe('failed');
    expect(JSON.parse(script.engine.end?.payload ?? '')).toMatchObject({
      code: 'DEADLOCK',
      message: expect.stringContaining('waits for the end of fiber 1'),
    });
  });

  test('are cancelled with the instance while they are joined', () => {
    const log: string[] = [];
    const script = scriptOf('join', leaving(log));
    script.turn();
    script.engine.succeed(2);
    script.turn();
    script.engine.cancel('stop');
    expect(script.turn()).toBe('waiting');
    script.engine.succeed(5);
    expect(script.output()).toBe('output');
    expect(log).toEqual(['undone']);
  });
});
