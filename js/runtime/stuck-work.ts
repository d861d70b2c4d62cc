// Warnings of a runtime about work that does not go on: instances that are suspended when the runtime starts, and
// instances and activities that no running worker has registered.

import type { Client } from '../client/client.ts';
import { readWorkers } from '../client/description.ts';
import { ServedWork } from '../client/served-work.ts';
import { overdueWork } from '../client/stats.ts';
import { suspensionReason } from '../client/wait-reason.ts';
import type { TraceFields } from '../logging/fields.ts';
import type { StorePort } from '../store/providers.ts';
import { NODE_TIMERS, type Timer } from '../util/timers.ts';
import type { Registry } from './registry.ts';

/** Time for which work must have been due, ms. */
const DUE_MS = 1_000;
/** Time from a start to the look that finds it, ms: more than {@link DUE_MS}, as the store has a clock of its own. */
const SOON_MS = 1_100;
/** Interval of the looks, ms. */
const LOOK_MS = 5_000;
/** The most suspended instances that a line names. */
const SUSPENDED_NAMED = 5;

/** Looks for work that does not go on, while the runtime is started. */
export class StuckWork {
  private readonly port: StorePort;
  private readonly client: Client;
  private readonly registry: Registry;
  private readonly queues: readonly string[] | 'any';
  private readonly warn: (message: string, fields: TraceFields) => void;
  /** The messages about work that was found by the last look: each is logged once, while the work is found. */
  private logged = new Set<string>();
  private timer: Timer | undefined;
  private next: 'soon' | 'later' = 'soon';
  /** True if an instance was started that the look which comes soon is too early for. */
  private needsAnother = false;
  private isStopped = false;

  constructor(
    port: StorePort,
    client: Client,
    registry: Registry,
    queues: readonly string[] | 'any',
    warn: (message: string, fields: TraceFields) => void,
  ) {
    this.port = port;
    this.client = client;
    this.registry = registry;
    this.queues = queues;
    this.warn = warn;
    port.startListeners.add(this.started);
    this.lookAfter(SOON_MS, async () => {
      await this.reportSuspended();
      await this.look();
    });
  }

  stop(): void {
    this.isStopped = true;
    this.port.startListeners.delete(this.started);
    this.timer?.clear();
  }

  /** A client of this process has started an instance. */
  private readonly started = (name: string, version: string | null): void => {
    if (this.registry.orchestration(name, version ?? '') !== undefined) return;
    if (this.next === 'soon') {
      this.needsAnother = true;
      return;
    }
    this.timer?.clear();
    this.lookAfter(SOON_MS, this.look);
  };

  private lookAfter(ms: number, look: () => Promise<void>): void {
    this.next = ms === SOON_MS ? 'soon' : 'later';
    this.timer = NODE_TIMERS.after(ms, () => void this.run(look), false);
  }

  private async run(look: () => Promise<void>): Promise<void> {
    // A start from here on has its own look.
    this.next = 'later';
    const before = this.timer;
    try {
      await look();
    } catch {
      // The store is closed, or cannot be read now: the runtime's own requests report that.
    }
    if (this.isStopped || this.timer !== before) return;
    this.lookAfter(this.needsAnother ? SOON_MS : LOOK_MS, this.look);
    this.needsAnother = false;
  }

  private readonly look = async (): Promise<void> => {
    const { instances, attempts } = await overdueWork(this.port, { forMs: DUE_MS, ...this.ownWork() });
    const found = new Map<string, TraceFields>();
    if (instances.length + attempts.length > 0) {
      const served = new ServedWork(await readWorkers(this.port));
      for (const { name, version, instances: count, oldestId } of instances) {
        const missing = served.missingOrchestration(name, version);
        if (missing === undefined) continue;
        const fields = { instanceId: oldestId, orchestrationName: name, version, instances: count };
        found.set(`instance '${oldestId}' waits: ${missing}`, fields);
      }
      for (const { queue, name, attempts: count, oldestId } of attempts) {
        const missing = served.missingActivity(queue, name);
        if (missing === undefined) continue;
        const fields = { instanceId: oldestId, activityName: name, queue, attempts: count };
        found.set(`instance '${oldestId}' waits: ${missing}`, fields);
      }
    }
    if (this.isStopped) return;
    for (const [message, fields] of found) if (!this.logged.has(message)) this.warn(message, fields);
    this.logged = new Set(found.keys());
  };

  /** Returns the work that this runtime can run: such work waits for room alone. */
  private ownWork(): {
    servedOrchestrations: [string, string][];
    servedActivities: [string, string][];
  } {
    const entries = [...this.registry.entries()];
    const orchestrations = entries.filter(({ kind }) => kind === 'orchestration');
    const activities = entries.filter(({ kind }) => kind === 'activity');
    return {
      servedOrchestrations: orchestrations.flatMap(({ name, version }): [string, string][] => [
        [name, version],
        [name, ''],
      ]),
      // Work of any queue is left out once the reports of the workers are here.
      servedActivities: (this.queues === 'any' ? [] : this.queues).flatMap((queue) =>
        activities.map(({ name }): [string, string] => [queue, name]),
      ),
    };
  }

  private async reportSuspended(): Promise<void> {
    const { instances } = await this.client.stats();
    const count = instances.Suspended;
    if (count === 0) return;
    const reasons: string[] = [];
    const ids: string[] = [];
    for await (const { id, name, version, error } of this.client.listInstances({
      system: true,
      status: 'Suspended',
      limit: SUSPENDED_NAMED,
    })) {
      ids.push(id);
      reasons.push(`'${id}' (${`${name} ${version}`.trimEnd()}): ${suspensionReason(error)}`);
    }
    if (this.isStopped || ids.length === 0) return;
    const more = count > ids.length ? `\n… and ${count - ids.length} more` : '';
    const are = count === 1 ? '1 instance is' : `${count} instances are`;
    this.warn(`${are} suspended:\n${reasons.join('\n')}${more}`, { suspended: count, instanceIds: ids });
  }
}
