// The part of a client that works on the whole store: lists and deletes instances, counts, describes and checks.

import type { StorePort } from '../store/providers.ts';
import { checkOptions } from '../util/options.ts';
import { descriptionOf, inspect, readWorkers, type StoreDescription, type WorkerInfo } from './description.ts';
import {
  InstanceList,
  LIST_OPTIONS,
  type ListOptions,
  PRUNE_EXECUTIONS_OPTIONS,
  PRUNE_OPTIONS,
  type PruneExecutionsOptions,
  type PruneOptions,
  storeFilter,
} from './listing.ts';
import { RECODE_OPTIONS, type Recoded, type RecodeOptions, recode } from './recode.ts';
import { OVERDUE_MS, type OverdueInstances, overdueWork, type StoreStats } from './stats.ts';
import { CHECK_STORE_OPTIONS, type CheckStoreOptions, type StoreCheck, stepLimit } from './store-check.ts';

/** The methods of a {@link Client} that concern the whole store. It has no constructor of its own: make a `Client`. */
export abstract class StoreClient {
  readonly #port: StorePort;
  #storeId: Promise<string> | null = null;

  /** @internal */
  protected constructor(port: StorePort) {
    this.#port = port;
  }

  /**
   * Lists the instances that match all given conditions, the newest first: to iterate over, or page by page. Instances
   * that have not ended, and Suspended ones, are found fast among any number of others. Any other condition is checked
   * for each instance on the way.
   *
   * @throws TypeError naming the option that is unknown or wrong
   *
   * @example
   * ```ts
   * for await (const { id } of client.listInstances({ status: ['Pending', 'Running'], tags: { team: 'billing' } }))
   *   console.log(id);
   *
   * let page = await client.listInstances({ limit: 20 }).page();
   * if (page.cursor !== null) page = await client.listInstances({ limit: 20, cursor: page.cursor }).page();
   * ```
   */
  listInstances(options?: ListOptions): InstanceList {
    return new InstanceList(this.#port, checkOptions(options, LIST_OPTIONS, 'client.listInstances') ?? {});
  }

  /**
   * Deletes ended instances that match all given conditions, as {@link Client.deleteInstance} does, the longest ended
   * first. They are deleted in small batches, and workers commit turns in between. After a failure on the way, the
   * deleted instances stay deleted.
   *
   * @param options - conditions; `{}` matches every instance that has ended
   * @returns the number of deleted instances
   * @throws TypeError naming the option that is unknown or wrong
   * @throws the signal's reason when `signal` is aborted
   *
   * @example
   * ```ts
   * const monthAgo = new Date(Date.now() - 30 * 86_400_000);
   * const { deleted } = await client.prune({ status: 'Completed', completedBefore: monthAgo });
   * ```
   */
  async prune(options: PruneOptions): Promise<{ deleted: number }> {
    if (options === undefined)
      throw new TypeError('client.prune: say what is to be deleted; {} is everything that has ended');
    const { limit = null, signal, ...filter } = checkOptions(options, PRUNE_OPTIONS, 'client.prune');
    const reply = await this.#port.request(
      { kind: 'prune', filter: storeFilter({ system: true, ...filter }), limit },
      null,
      signal,
    );
    return { deleted: Number(reply) };
  }

  /**
   * Deletes the histories of former executions, as `continueAsNew` leaves them, of all matching instances, ended or
   * not. The instances stay as they are. The deletion goes in small steps, as {@link prune} does.
   *
   * @param options - conditions, and the number of executions that each instance keeps
   * @returns the number of executions whose history was deleted
   * @throws TypeError naming the option that is missing, unknown or wrong
   * @throws the signal's reason when `signal` is aborted
   *
   * @example
   * ```ts
   * await client.pruneExecutions({ name: 'monitor', keep: 10 });
   * ```
   */
  async pruneExecutions(options: PruneExecutionsOptions): Promise<{ deleted: number }> {
    const { keep, signal, ...filter } = checkOptions(options, PRUNE_EXECUTIONS_OPTIONS, 'client.pruneExecutions') ?? {};
    if (keep === undefined)
      throw new TypeError('client.pruneExecutions: keep says how many executions stay; there is none');
    const request = { kind: 'pruneExecutions', filter: storeFilter({ system: true, ...filter }), keep } as const;
    const reply = await this.#port.request(request, null, signal);
    return { deleted: Number(reply) };
  }

  /**
   * Encodes all values of the store anew with the key that the codec of this client's provider names, while workers
   * run: each text of another key, and each plain text unless the codec says `required`. The work goes in small steps
   * and changes only texts that have not changed since they were read. A second run, after a first one that ended in
   * any way, goes on with the rest. Resolves when the only texts of another key are those that the codec cannot read;
   * they stay as they are.
   *
   * Every worker and client must read both keys, and write with the new one, before this begins. Workers may still
   * store values that they hold in memory with the old key: restart them, and run this once more before the old key is
   * removed.
   *
   * @throws TypeError when the provider has no codec, the codec names no key, or an option is wrong
   * @throws the signal's reason when `signal` is aborted
   *
   * @example
   * ```ts
   * const { keyId, recoded, unreadable } = await client.recode({ onProgress: ({ rows }) => console.log(rows) });
   * ```
   */
  async recode(options?: RecodeOptions): Promise<Recoded> {
    return recode(this.#port, checkOptions(options, RECODE_OPTIONS, 'client.recode') ?? {});
  }

  /**
   * Returns the identity of the store: a text that no other store has, drawn when the store is made. A copy of a store
   * has that of its original. The stores in memory have the same one.
   */
  storeId(): Promise<string> {
    this.#storeId ??= this.#readStoreId().catch((error) => {
      this.#storeId = null;
      throw error;
    });
    return this.#storeId;
  }

  async #readStoreId(): Promise<string> {
    return (await this.#port.request({ kind: 'storeId' })) as string;
  }

  /**
   * Counts the contents of the store. The counts come from indexes: some 0.1 s for a million instances that have ended
   * or sleep. Instances that are due, or that workers own, are counted one by one.
   *
   * @example
   * ```ts
   * const { instances, due } = await client.stats();
   * if (due.overdue > 0) console.warn(`${due.overdue} instances wait for a worker, of ${instances.Running} that run`);
   * ```
   */
  async stats(): Promise<StoreStats> {
    const reply = await this.#port.request({ kind: 'stats' });
    return JSON.parse(reply as string) as StoreStats;
  }

  /**
   * Returns the setup of the store: its kind, its location without secrets, the version of its tables, its size and its
   * settings.
   *
   * @example
   * ```ts
   * const { location, schemaVersion, settings } = await client.describeStore();
   * ```
   */
  async describeStore(): Promise<StoreDescription> {
    return descriptionOf(await inspect(this.#port));
  }

  /**
   * Checks the store for rows that break its rules: gaps in histories, owners that are not workers, rows that belong to
   * nothing, instances that nothing can ever wake. The first step also reads a whole SQLite file and checks it for
   * damage. Nothing is changed. Each step reads one snapshot, so a check may run while workers run, and their
   * unfinished work is not a finding.
   *
   * @param options - the cursor to go on from
   * @returns the findings of this step, and the cursor of the next one
   * @throws TypeError naming the option that is unknown or wrong
   *
   * @example
   * ```ts
   * let step = await client.checkStore();
   * for (;;) {
   *   for (const { rule, instanceId, detail } of step.findings) console.error(rule, instanceId, detail);
   *   if (step.cursor === null) break;
   *   step = await client.checkStore({ cursor: step.cursor });
   * }
   * ```
   */
  async checkStore(options?: CheckStoreOptions): Promise<StoreCheck> {
    const given = checkOptions(options, CHECK_STORE_OPTIONS, 'client.checkStore') ?? {};
    const request = { kind: 'check', cursor: given.cursor ?? null, limit: stepLimit(given) } as const;
    const reply = await this.#port.request(request);
    return JSON.parse(reply as string) as StoreCheck;
  }

  /**
   * Returns the started runtimes of all processes, in order of their ids, with the number of instances and tasks of
   * each and its own report (`about`). Owned instances and tasks are counted one by one: call this for people, not in a
   * tight loop.
   *
   * @example
   * ```ts
   * for (const { name, isAlive, instances } of await client.workers()) console.log(name, isAlive, instances);
   * ```
   */
  async workers(): Promise<WorkerInfo[]> {
    return readWorkers(this.#port);
  }

  /**
   * Returns the instances that could go on but that no worker has taken for 10 s or more, by orchestration and version.
   * The longest waiting come first, at most 20 entries. Either no started runtime has registered that orchestration in
   * that version, or those that have are too busy.
   *
   * @example
   * ```ts
   * for (const { name, version, instances } of await client.overdue())
   *   console.log(`${instances} of ${name} ${version}`);
   * ```
   */
  async overdue(): Promise<OverdueInstances[]> {
    const none = { forMs: OVERDUE_MS, servedOrchestrations: [], servedActivities: [] };
    return (await overdueWork(this.#port, none)).instances;
  }
}
