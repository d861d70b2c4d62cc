// Queries of clients, answered by code that follows the stored history.
//
// The code of an instance is taken through its history, and is kept at the end of it. A later query reads what was
// written since, takes the code through that, and asks it. So it sees committed turns alone, whichever process ran
// them, and the generators of running instances are never asked.
//
// Invariants:
//
//   Q1. An answer is at least as new as the store was when its query began. A code that is kept only moves forward.
//   Q2. Nothing is written or sent, no activity runs, and no line is logged.

import { ReplayEngine } from '../binding/replay-engine.ts';
import type { QueryAnswer } from '../driver/queries.ts';
import type { RunnableOrchestration } from '../orchestration/definition.ts';
import type { HistoryPlace, MissingCode, ReadAfter, ReadHistory } from '../store/query-host.ts';
import { fromNative } from '../values/error-data.ts';
import type { RuntimeLimits } from '../values/limits.ts';
import { StoredTexts } from '../values/stored-text.ts';
import type { TypeRegistry } from '../values/value-types.ts';
import { Instance } from './instance.ts';
import { replayHost, replayTurn } from './replay-turn.ts';

/** Most instances whose code is kept for further queries, the last used ones. */
const KEPT_MAX = 100;

/** The services of its runtime that the replays need. */
export interface ReplayServices {
  readonly limits: Required<RuntimeLimits>;
  readonly types: TypeRegistry;
  readonly sourceStacks: boolean;
  readonly isGuarded: boolean;
  orchestration(name: string, version: string): RunnableOrchestration | undefined;
}

/** The code of an instance, at a place in its history. */
interface Kept extends HistoryPlace {
  next: number;
  readonly engine: ReplayEngine;
  readonly instance: Instance;
}

export class QueryReplays {
  private readonly services: ReplayServices;
  /** By the id of the instance, the last used one last. */
  private readonly kept = new Map<string, Kept>();

  constructor(services: ReplayServices) {
    this.services = services;
  }

  /** See `QueryHost`. */
  async answer(id: string, query: string, input: unknown, read: ReadAfter): Promise<QueryAnswer | MissingCode> {
    const history = await read(this.kept.get(id) ?? null);
    // Another query may have dropped or replaced the code meanwhile.
    const followed =
      this.follow(id, history) ?? this.begin(id, history.events[0]?.eventId === 1 ? history : await read(null));
    return 'instance' in followed ? followed.instance.query(query, input) : followed;
  }

  /** Drops all code that is kept. */
  forget(): void {
    for (const id of [...this.kept.keys()]) this.drop(id);
  }

  /** Takes the code that is kept to the end of the history. `undefined`: it must be taken through all of it. */
  private follow(id: string, { key, executionId, events }: ReadHistory): Kept | undefined {
    const kept = this.kept.get(id);
    if (kept === undefined || kept.key !== key || kept.executionId !== executionId) return undefined;
    const more = events.filter(({ eventId }) => eventId >= kept.next);
    if (more.length > 0) {
      if (!kept.engine.extend(JSON.stringify(more))) return undefined;
      this.run(id, kept);
      kept.next += more.length;
    }
    this.keep(id, kept);
    return kept;
  }

  /** Takes code through a history from its first event on. */
  private begin(id: string, { key, executionId, next, events }: ReadHistory): Kept | MissingCode {
    this.drop(id);
    const texts = new StoredTexts().withTypes(this.services.types);
    const engine = ReplayEngine.open(id, executionId, JSON.stringify(events), texts);
    const description = engine.describe();
    const { name, version } = description;
    const orchestration = this.services.orchestration(name, version);
    if (orchestration === undefined) return { name, version };
    const instance = new Instance(engine, description, orchestration, replayHost(this.services));
    const kept = { key, executionId, next, engine, instance };
    this.keep(id, kept);
    this.run(id, kept);
    return kept;
  }

  private run(id: string, { engine, instance }: Kept): void {
    try {
      replayTurn(instance, this.services.isGuarded);
      if (engine.refusal !== null) throw fromNative(engine.refusal);
    } catch (error) {
      this.drop(id);
      throw error;
    }
  }

  private keep(id: string, kept: Kept): void {
    this.kept.delete(id);
    this.kept.set(id, kept);
    const [oldest] = this.kept.keys();
    if (this.kept.size > KEPT_MAX && oldest !== undefined) this.drop(oldest);
  }

  private drop(id: string): void {
    this.kept.get(id)?.instance.release();
    this.kept.delete(id);
  }
}
