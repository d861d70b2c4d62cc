// What programs come to.

import type { Block, Program, Root, Statement } from './programs.ts';

/** Where every program starts. */
export const START = 1;

/** The same as in interpreter.mjs. */
function mix(value: number, k: number): number {
  return (value * 31 + k) % 1_000_003;
}

/** What a program returns, if it does. */
export function valueOf(program: Program): number {
  return program.segments.reduce(after, START);
}

function after(value: number, block: Block): number {
  return block.reduce(afterOne, value);
}

/** Blocks at once begin each with another number, and what they come to counts in their order. */
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

/** An instance that must be there when a program has ended, with what it must have come to. */
export interface Expected {
  readonly id: string;
  readonly program: Program;
  /** Sent to it by another instance: all that it collects. */
  readonly isDetached: boolean;
}

/** A root and all that it starts and does not wait for; one that may be cut off at any moment has none of the latter. */
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

/** What an instance shows when it has come to its end by itself. */
export function lastStatus(id: string): string {
  return `${id} is over`;
}
