// Random programs: each `finally` that was entered ends, and in order.

import fc from 'fast-check';
import { expect, test } from 'vitest';

import type { Future } from '../../js/driver/future.ts';
import { TimeoutError } from '../../js/errors/errors.ts';
import type { OrchestrationContext } from '../../js/orchestration/orchestration-context.ts';
import { SEED } from '../support/arbitrary.ts';
import type { Block } from './cleanup-blocks.ts';
import { Script } from './scripted-engine.ts';

/**
 * A block of a random program: the operation that it waits for inside `try`, and the number of steps in its `finally`.
 */
interface Tree {
  kind: 'wait' | 'step' | 'all' | 'race' | 'join' | 'leave' | 'timeout' | 'block';
  undo: number;
  below: Tree[];
}

const { tree } = fc.letrec<{ tree: Tree }>((tie) => ({
  tree: fc.record({
    kind: fc.constantFrom<Tree['kind'][]>('wait', 'step', 'all', 'race', 'join', 'leave', 'timeout', 'block'),
    undo: fc.nat({ max: 2 }),
    below: fc.oneof(
      { depthSize: 'small' },
      fc.constant<Tree[]>([]),
      fc.array(tie('tree'), { minLength: 1, maxLength: 3 }),
    ),
  }),
}));

/** Returns true if a block of this kind continues only when the blocks below have ended. */
function awaitsBelow({ kind, undo }: Tree): boolean {
  return ['all', 'timeout', 'block'].includes(kind) || (kind === 'race' && undo > 0);
}

/**
 * Runs a block of a random program. The log shows `+` when a block began, `-` when its cleanup began, and `.` when the
 * cleanup has ended.
 */
function* randomBlock(ctx: OrchestrationContext, tree: Tree, path: string, log: string[]): Block {
  const { kind, undo, below } = tree;
  const joined = function* (blocks: Block[]): Block {
    yield ctx.all(blocks);
  };
  log.push(`+${path}`);
  try {
    const blocks = below.map((child, i) => randomBlock(ctx, child, `${path}${i}`, log));
    if (kind === 'step') yield ctx.scheduleActivity('step');
    if (kind === 'all') yield ctx.all([...blocks, ctx.sleep(1)]);
    else if (kind === 'race') yield ctx.race([...blocks, ctx.sleep(1)], { cancelLosers: undo > 0 });
    else if (kind === 'timeout') yield* inTime(ctx.withTimeout(1, ctx.allSettled(blocks)));
    else if (kind === 'block') yield ctx.uncancellable(() => joined(blocks));
    else if (kind === 'leave') for (const block of blocks) ctx.spawn(block);
    else for (const fiber of blocks.map((block) => ctx.spawn(block))) yield fiber;
    yield ctx.scheduleActivity('rest');
  } finally {
    log.push(`-${path}`);
    try {
      for (let i = 0; i < undo; i += 1)
        yield i === 1 ? ctx.all([ctx.scheduleActivity('undo'), ctx.sleep(1)]) : ctx.scheduleActivity('undo');
    } finally {
      log.push(`.${path}`);
    }
  }
}

function* inTime(limited: Future<unknown>): Block {
  try {
    yield limited;
  } catch (error) {
    if (!(error instanceof TimeoutError)) throw error;
  }
}

/** Returns the operations that could settle: activities and timers that have not settled and were not given up. */
function openOperations({ commands }: Script['engine'], settled: ReadonlySet<number>): number[] {
  const isOpen = (command: string, operation: number) =>
    /^activity|^timer/.test(command) && !settled.has(operation) && !commands.includes(`cancel ${operation}`);
  return commands.flatMap((command, i) => (isOpen(command, i + 2) ? [i + 2] : []));
}

function checkOrder(tree: Tree, path: string, log: readonly string[]): void {
  for (const [i, child] of tree.below.entries()) {
    const below = `${path}${i}`;
    if (!log.includes(`+${below}`)) continue;
    if (awaitsBelow(tree))
      expect(log.indexOf(`.${below}`), `cleanup of ${below} before that of ${path}`).toBeLessThan(
        log.indexOf(`-${path}`),
      );
    checkOrder(child, below, log);
  }
}

test('random programs run every finally that was entered, and those that are waited for first', () => {
  fc.assert(
    fc.property(tree, fc.nat({ max: 12 }), fc.infiniteStream(fc.nat()), (program, cancelAfter, choices) => {
      const log: string[] = [];
      const script = new Script(function* (ctx): Block {
        yield* randomBlock(ctx, program, 'r', log);
        yield ctx.waitForEvent('never');
      });
      const { engine } = script;
      const settled = new Set<number>();
      for (let step = 0; ; step += 1) {
        if (step === cancelAfter) engine.cancel('stop');
        if (script.turn() !== 'waiting') break;
        const open = openOperations(engine, settled);
        if (open.length === 0 && step > cancelAfter) throw new Error(`it waits for nothing: ${log.join(' ')}`);
        const operation = open[(choices.next().value as number) % open.length];
        if (operation === undefined) continue;
        settled.add(operation);
        if (engine.commands[operation - 2]?.startsWith('timer')) engine.due(operation);
        else engine.succeed(operation);
      }
      expect(engine.end?.kind).toBe('cancelled');
      const entered = log.filter((line) => line.startsWith('+')).map((line) => line.slice(1));
      const left = log.filter((line) => line.startsWith('.')).map((line) => line.slice(1));
      expect(left.toSorted()).toEqual(entered.toSorted());
      checkOrder(program, 'r', log);
    }),
    { seed: SEED, numRuns: 2_000 },
  );
  // Thousands of programs take a while on a busy machine.
});
