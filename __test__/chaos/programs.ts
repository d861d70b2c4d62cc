// Random programs: the steps of orchestrations and the actions of clients on them, as data that a seed decides.
//
// A program carries one number from statement to statement (see interpreter.mjs, which runs it, and model.ts, which
// computes its result). The number never depends on which branch of a program is faster, so that a model can predict
// it. The number does show if a step was lost, ran with a stale input or was counted twice.

import { Dice } from './dice.ts';
import { GATE, keyAt } from './gate.ts';

export type Block = readonly Statement[];

export type Statement =
  /** An activity. Its first attempts may fail, or hang until their timeout. Only some workers serve the queue `far`. */
  | {
      readonly do: 'step';
      readonly k: number;
      readonly failures: number;
      readonly ms: number;
      readonly hangs: boolean;
      readonly queue: 'default' | 'far';
    }
  /** An activity that fails for good. The error is caught. */
  | { readonly do: 'refused'; readonly k: number }
  /** An activity that is cancelled while it runs. The error is caught. */
  | { readonly do: 'abandoned'; readonly k: number }
  | { readonly do: 'inline'; readonly k: number }
  | { readonly do: 'timer'; readonly ms: number }
  /** A wait that times out. The error is caught. */
  | { readonly do: 'timeout'; readonly ms: number; readonly k: number }
  /** Random numbers and times, which a replay must repeat. */
  | { readonly do: 'draw' }
  | { readonly do: 'status'; readonly k: number }
  /** Blocks that run concurrently. */
  | { readonly do: 'all'; readonly blocks: readonly Block[] }
  /** A race of a block against a timer that is far away. */
  | { readonly do: 'race'; readonly block: Block }
  /** Fibers that report through a channel. */
  | { readonly do: 'fibers'; readonly blocks: readonly Block[] }
  /** A child orchestration that is awaited. */
  | { readonly do: 'child'; readonly n: number; readonly program: Program }
  /** A detached instance, and messages to it. */
  | { readonly do: 'detached'; readonly n: number; readonly program: Program; readonly letters: number }
  /** Receives all messages of a mailbox, in order. */
  | { readonly do: 'collect'; readonly mailbox: Mailbox; readonly name: string; readonly count: number }
  /** Waits for an event that never comes. */
  | { readonly do: 'never' };

export type Mailbox = 'event' | 'queue';

export type Ending = 'Completed' | 'Failed' | 'Cancelled' | 'Terminated';

/** One orchestration. Each segment is an execution: `continueAsNew` leads to the next. */
export interface Program {
  readonly segments: readonly Block[];
  readonly ending: Ending;
  /** True if it notes in the log when it has a slot of its queue, and when it is about to end. */
  readonly isNoted?: boolean;
}

/** An action of a client on an instance that it has started, after a pause. */
export type Action = { readonly pauseMs: number } & (
  | { readonly do: 'send'; readonly mailbox: Mailbox; readonly name: string; readonly seq: number }
  | { readonly do: 'cancel' }
  | { readonly do: 'terminate' }
);

/** A program that clients start and send messages to. */
export interface Root extends Program {
  readonly id: string;
  readonly actions: readonly Action[];
  /** Number of starts that are sent at once. */
  readonly starts: number;
  /** The queue that it passes through, if it does. */
  readonly queue?: { readonly queue: string; readonly key: string };
}

/** The mailbox of a detached instance. */
export const LETTERS = 'letters';

/** Returns the instance id of a program. */
export function idOf(index: number): string {
  return `p${index}`;
}

/** Returns the program with this number under a seed. */
export function rootOf(seed: number, index: number): Root {
  const dice = new Dice(seed, index);
  const ending = dice.pick<Ending>([
    'Completed',
    'Completed',
    'Completed',
    'Completed',
    'Completed',
    'Completed',
    'Failed',
    'Cancelled',
    'Terminated',
  ]);
  const author = new Author(dice, ending);
  const segments = dice.times(dice.pick([1, 1, 2, 3]), () => author.block(dice.between(2, 5), 0));
  if (ending === 'Cancelled' || ending === 'Terminated') segments.push([{ do: 'never' }]);
  const root = {
    id: idOf(index),
    segments,
    ending,
    starts: dice.oneIn(4) ? dice.between(2, 8) : 1,
    actions: actionsOf(dice, segments, ending),
  };
  if (!dice.oneIn(2)) return root;
  // An end from outside frees the slot at once, and an attempt that is under way may write its line after that.
  const isNoted = ending === 'Completed' || ending === 'Failed';
  return { ...root, isNoted, queue: { queue: GATE, key: keyAt(index) } };
}

/**
 * Returns the actions of the client: it sends all messages that the program collects, each mailbox in order, and then
 * ends the instance if needed.
 */
function actionsOf(dice: Dice, segments: readonly Block[], ending: Ending): Action[] {
  const collects = segments.flat().filter((statement) => statement.do === 'collect');
  const turns = dice.shuffled(collects.flatMap((collect) => dice.times(collect.count, () => collect)));
  const sent = new Map<string, number>();
  const actions = turns.map(({ mailbox, name }): Action => {
    const seq = (sent.get(name) ?? 0) + 1;
    sent.set(name, seq);
    return { do: 'send', mailbox, name, seq, pauseMs: dice.between(0, 30) };
  });
  const pauseMs = dice.between(0, 400);
  if (ending === 'Cancelled') actions.push({ do: 'cancel', pauseMs });
  if (ending === 'Terminated') actions.push({ do: 'terminate', pauseMs });
  return actions;
}

type Maker = (author: Author, depth: number) => Statement;

/** Statements that any block may contain. */
const STATEMENTS: readonly Maker[] = [
  ...Array<Maker>(5).fill((author) => author.step()),
  (author) => ({ do: 'refused', k: author.k() }),
  (author) => ({ do: 'inline', k: author.k() }),
  (author) => ({ do: 'timer', ms: author.dice.between(1, 150) }),
  (author) => ({ do: 'timeout', ms: author.dice.between(1, 80), k: author.k() }),
  () => ({ do: 'draw' }),
];

/** Statements that contain blocks. */
const COMPOUND: readonly Maker[] = [
  (author, depth) => ({ do: 'all', blocks: author.blocks(depth) }),
  (author, depth) => ({ do: 'race', block: author.block(2, depth + 1) }),
  (author, depth) => ({ do: 'fibers', blocks: author.blocks(depth) }),
  (author, depth) => author.child(depth),
];

/** Statements of the top level only: at most one of a kind at a time, in order. */
const TOP: readonly Maker[] = [
  (author) => ({ do: 'status', k: author.k() }),
  (author) => author.collect(),
  (author) => author.collect(),
];

/** Makes up the parts of one program. */
class Author {
  readonly dice: Dice;
  readonly #makers: readonly (readonly Maker[])[];
  /** Numbers children, detached instances and mailboxes. */
  #count = 0;

  constructor(dice: Dice, ending: Ending) {
    this.dice = dice;
    const more: Maker[] = [];
    // A program that is cut off at any moment may leave a detached instance without its messages. A program that is
    // cancelled while it catches another cancellation would swallow its own.
    if (ending === 'Completed' || ending === 'Failed') {
      more.push(
        (author, depth) => author.detached(depth),
        (author) => ({ do: 'abandoned', k: author.k() }),
      );
    }
    this.#makers = [[...STATEMENTS, ...COMPOUND, ...TOP, ...more], [...STATEMENTS, ...COMPOUND], STATEMENTS];
  }

  k(): number {
    return this.dice.between(1, 1_000);
  }

  step(): Statement {
    const { dice } = this;
    const [failures, hangs] = [dice.oneIn(5) ? dice.between(1, 3) : 0, dice.oneIn(12)];
    return {
      do: 'step',
      k: this.k(),
      ms: dice.pick([0, 0, 1, 5, 20]),
      failures,
      hangs,
      queue: dice.oneIn(8) ? 'far' : 'default',
    };
  }

  block(length: number, depth: number): Block {
    const makers = this.#makers[Math.min(depth, 2)] ?? STATEMENTS;
    return this.dice.times(length, () => this.dice.pick(makers)(this, depth));
  }

  blocks(depth: number): Block[] {
    return this.dice.times(this.dice.between(2, 4), () => this.block(this.dice.between(1, 3), depth + 1));
  }

  child(depth: number): Statement {
    this.#count += 1;
    const segments = this.dice.times(this.dice.pick([1, 1, 2]), () => this.block(2, depth + 1));
    return { do: 'child', n: this.#count, program: { segments, ending: this.dice.oneIn(4) ? 'Failed' : 'Completed' } };
  }

  detached(depth: number): Statement {
    this.#count += 1;
    const letters = this.dice.between(1, 5);
    const collect: Statement = {
      do: 'collect',
      mailbox: this.dice.pick(['event', 'queue']),
      name: LETTERS,
      count: letters,
    };
    const segments = [this.block(1, depth + 1), [collect, ...this.block(1, depth + 1)]];
    return { do: 'detached', n: this.#count, program: { segments, ending: 'Completed' }, letters };
  }

  collect(): Statement {
    this.#count += 1;
    return {
      do: 'collect',
      mailbox: this.dice.pick(['event', 'queue']),
      name: `box ${this.#count}`,
      count: this.dice.between(1, 4),
    };
  }
}
