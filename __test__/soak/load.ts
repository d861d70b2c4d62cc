// The load of one client on a store, from its beginning to its rest.

import type { Client } from 'perdure';

import { Crew } from './crew.ts';
import { Cycles } from './cycles.ts';
import { Housekeeping } from './housekeeping.ts';
import { Probes } from './probes.ts';
import { Programs } from './programs.ts';
import type { ClientOptions, Figures, Trouble } from './talk.ts';
import { Troubles } from './troubles.ts';

export class Load {
  readonly programs: Programs;
  readonly #crew = new Crew();
  readonly #cycles: Cycles;
  readonly #probes: Probes;
  readonly #housekeeping: Housekeeping;

  /** `name` makes the ids of this load unique, and so does the number of its first program. */
  constructor(
    client: Client,
    { seed, rate }: ClientOptions,
    name: string,
    firstProgram: number,
    beside: Trouble | undefined,
  ) {
    const crew = this.#crew;
    this.programs = new Programs(client, crew, seed, rate, firstProgram);
    this.#cycles = new Cycles(client, crew, name);
    this.#probes = new Probes(client, crew, name);
    this.#housekeeping = new Housekeeping(client, () => this.programs.oldest);
    crew.add('programs', this.programs.run());
    crew.add('cycles', this.#cycles.run());
    crew.add('probes', this.#probes.run());
    crew.add('housekeeping', this.#housekeeping.run(crew.stop));
    if (beside !== undefined) crew.add(beside, new Troubles(client, crew, name, beside).run());
  }

  /** Begins nothing more. Resolves when all has ended. */
  async rest(): Promise<Figures> {
    await this.#crew.end();
    const { programs, wrong } = { programs: this.programs.count, wrong: this.#crew.wrong };
    return { programs, cycles: this.#cycles.count, pruned: this.#housekeeping.pruned, ...this.#probes.figures, wrong };
  }
}
