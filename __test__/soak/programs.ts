// Programs of chaos, begun at a steady rate and followed to their ends.

import { type Client, TimeoutError } from 'perdure';

import type { ClientEntry } from '../chaos/client-log.ts';
import { instancesOf } from '../chaos/model.ts';
import { judge, type Outcome } from '../chaos/outcomes.ts';
import { type Action, type Root, rootOf } from '../chaos/programs.ts';
import { pause } from '../support/worker-parts.mjs';
import { type Crew, PATIENCE_MS } from './crew.ts';

/**
 * The most programs under way. With more of them, the store does not keep up with the rate, and the measurements mean
 * nothing.
 */
const UNDER_WAY_MAX = 1_000;

export class Programs {
  readonly #client: Client;
  readonly #crew: Crew;
  readonly #seed: number;
  readonly #rate: number;
  readonly #first: number;
  #next: number;
  /** The times at which the running programs began, ms since 1970. */
  readonly #underWay = new Map<number, number>();

  /** Begins `rate` programs per second, from number `first` on. */
  constructor(client: Client, crew: Crew, seed: number, rate: number, first: number) {
    this.#client = client;
    this.#crew = crew;
    this.#seed = seed;
    this.#rate = rate;
    this.#first = first;
    this.#next = first;
  }

  get count(): number {
    return this.#next - this.#first;
  }

  /** The number of the first program that has not begun. */
  get next(): number {
    return this.#next;
  }

  get underWay(): number {
    return this.#underWay.size;
  }

  /** Instances that ended before this time are needed by no program, ms since 1970. */
  get oldest(): number {
    return Math.min(Date.now(), ...this.#underWay.values());
  }

  async run(): Promise<void> {
    const { stop } = this.#crew;
    await stop.everyMs(1_000 / this.#rate, () => {
      if (this.underWay >= UNDER_WAY_MAX)
        throw new Error(`${this.underWay} programs are under way at once: the rate is too high for this machine`);
      const program = this.#next;
      this.#next += 1;
      this.#crew.add(`program ${program}`, this.#follow(program));
    });
  }

  async #follow(program: number): Promise<void> {
    this.#underWay.set(program, Date.now());
    try {
      await this.#play(program, rootOf(this.#seed, program));
    } finally {
      this.#underWay.delete(program);
    }
  }

  async #play(program: number, root: Root): Promise<void> {
    const entries: ClientEntry[] = [];
    const done = (action: ClientEntry['action']) =>
      entries.push({ program, action, attempt: 1, phase: 'acknowledged', at: Date.now() });
    await this.#start(root);
    done('start');
    for (const [i, action] of root.actions.entries()) {
      await pause(action.pauseMs);
      await this.#act(root.id, action);
      done(i);
    }
    const outcomes = new Map<string, Outcome>();
    for (const { id } of instancesOf(root)) {
      const outcome = await this.#outcome(id);
      if (outcome !== null) outcomes.set(id, outcome);
    }
    const { lost, stuck, wrong } = judge(root, entries, (id) => outcomes.get(id));
    this.#crew.wrong.push(...lost, ...stuck.map(({ text }) => text), ...wrong);
  }

  /** Starts the program several times at once: only one instance comes of it. */
  async #start({ id, starts, segments, ending, isNoted, queue }: Root): Promise<void> {
    const input = { program: { segments, ending, isNoted } };
    const options = { onConflict: 'return', ...queue } as const;
    const start = () => this.#client.startOrchestration(id, 'program', input, options);
    await Promise.all(Array.from({ length: starts }, start));
  }

  async #act(id: string, action: Action): Promise<void> {
    switch (action.do) {
      case 'send': {
        const send = action.mailbox === 'queue' ? this.#client.enqueueEvent : this.#client.raiseEvent;
        return send.call(this.#client, id, action.name, [action.seq, 1]);
      }
      case 'cancel':
        return this.#client.cancelInstance(id);
      case 'terminate':
        return this.#client.terminateInstance(id);
    }
  }

  /** Returns the outcome of an instance, or its current status if it does not end in time. */
  async #outcome(id: string): Promise<Outcome | null> {
    try {
      return await this.#client.waitForOrchestration(id, PATIENCE_MS);
    } catch (error) {
      if (!(error instanceof TimeoutError)) throw error;
      return this.#client.getStatus(id);
    }
  }
}
