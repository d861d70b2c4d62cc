// The expected results of programs.

import type { Block, Program, Root, Statement } from './programs.ts';

/** The number with which every program starts. */
export const START = 1;

/** The same function as in interpreter.mjs. */
function mix(value: number, k: number): number {
  return (value * 31 + k) % 1_000_003;
}

/** Returns the output of a program that completes. */
export function valueOf(program: Program): number {
  return program.segments.reduce(after, START);
}

function after(value: number, block: Block): number {
  return block.reduce(afterOne, value);
}

/** Concurrent blocks each begin with a different number. Their results are combined in the order of the blocks. */
function afterAll(value: number, blocks: readonly Block[]): number {
  return blocks.reduce((sum, block, i) => mix(sum, after(value + i, block)), value);
}

function afterOne(value: number, statement: Statement): number {
  switch (statement.do) {
    case 'step':
    case 'refused':
    case 'abandoned':
    case 'inline':
    case 'timeout':
      return mix(value, statement.k);
    case 'all':
    case 'fibers':
      return afterAll(value, statement.blocks);
    case 'race':
      return after(value, statement.block);
    case 'child':
      return mix(value, statement.program.ending === 'Failed' ? 0 : valueOf(statement.program));
    case 'collect':
      return Array.from({ length: statement.count }, (_, i) => i + 1).reduce(mix, value);
    case 'timer':
    case 'draw':
    case 'status':
    case 'detached':
    case 'never':
      return value;
  }
}

/** An instance that must exist when a program has ended, with its expected result. */
export interface Expected {
  readonly id: string;
  readonly program: Program;
  /** True if another instance sends it all the messages that it collects. */
  readonly isDetached: boolean;
}

/**
 * Returns a root and all instances that it starts without waiting for them. A root that may be cut off at any moment
 * starts none of these.
 */
export function instancesOf({ id, segments, ending }: Root): Expected[] {
  return [
    { id, program: { segments, ending }, isDetached: false },
    ...segments.flat().flatMap((statement) => detachedOf(id, statement)),
  ];
}

function detachedOf(id: string, statement: Statement): Expected[] {
  return statement.do === 'detached'
    ? [{ id: `${id}.${statement.n}`, program: statement.program, isDetached: true }]
    : [];
}

/** Returns the last custom status of an instance that ended by itself. */
export function lastStatus(id: string): string {
  return `${id} is over`;
}
