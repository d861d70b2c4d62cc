// Explains why a test is stuck: the work that each instance waits for, found by a replay of its history.

import type { Client } from '../client/client.ts';
import type { InstanceStatus } from '../client/instance-status.ts';
import { beginReason } from '../client/wait-reason.ts';
import { describeMessage } from '../driver/waits.ts';
import { PerdureError } from '../errors/errors.ts';
import { exportsOf } from './exported.ts';
import { type PendingWork, type ReplayHost, replayExecution } from './replay.ts';
import type { ActivityCall } from './test-activities.ts';

/**
 * A test waits for a change that cannot come: nothing can go on, and no timer helps. Its `code` is `'STUCK'`, and its
 * message says what each instance waits for.
 *
 * @example
 * ```ts
 * await expect(handle.result()).rejects.toThrow("waits for event 'packed'");
 * ```
 */
export class StuckError extends PerdureError {
  constructor(message: string) {
    super(message, 'STUCK');
  }
}

Object.defineProperty(StuckError.prototype, 'name', { value: 'StuckError', writable: true, configurable: true });

/** Text about an attempt, by its outcome. */
const STATES: Partial<Record<ActivityCall['outcome'], string>> = {
  hanging: ', held by test.hang',
  running: ', which is running',
};

/** The most instances that are explained. */
const TOLD_MAX = 20;

/** The waits of instances, and of the children that they wait for. */
export class WaitExplanation {
  private readonly client: Client;
  private readonly host: ReplayHost;
  private readonly calls: readonly ActivityCall[];
  private readonly told = new Set<string>();
  private readonly lines: string[] = [];

  constructor(client: Client, host: ReplayHost, calls: readonly ActivityCall[]) {
    this.client = client;
    this.host = host;
    this.calls = calls;
  }

  /** Returns a line for each instance. */
  async of(ids: Iterable<string>): Promise<string> {
    for (const id of ids) await this.add(id);
    return this.lines.map((line) => `\n  ${line}`).join('');
  }

  private async add(id: string): Promise<void> {
    if (this.told.has(id) || this.told.size === TOLD_MAX) return;
    this.told.add(id);
    const status = await this.client.getStatus(id);
    if (status === null) {
      this.lines.push(`there is no instance '${id}'`);
      return;
    }
    const children: string[] = [];
    this.lines.push(
      `instance '${id}' (${`${status.name} ${status.version}`.trimEnd()}) ${await this.about(status, children)}`,
    );
    for (const child of children) await this.add(child);
  }

  private async about(status: InstanceStatus, children: string[]): Promise<string> {
    const { id, name, version } = status;
    if (status.status === 'Suspended') return `is suspended: ${status.error?.message}`;
    if (status.status !== 'Pending' && status.status !== 'Running') return `is ${status.status}`;
    if (this.host.orchestration(name, version) === undefined)
      return `cannot run: ${`${name} ${version}`.trimEnd()} is not registered with the test runtime`;
    if (status.status === 'Pending') {
      const description = await this.client.describe(id);
      return `has not begun${description === null ? '' : `: ${beginReason(description, 0)}`}`;
    }
    const [exported] = exportsOf(await this.client.exportHistory(id), '');
    if (exported === undefined) return 'has no history';
    const { pending } = replayExecution(exported, this.host, `instance '${id}'`);
    for (const work of pending) if (work.kind === 'child') children.push(work.instanceId);
    return `waits for ${pending.map((work) => this.shown(work, id)).join(', ') || 'nothing'}`;
  }

  private shown(work: PendingWork, id: string): string {
    switch (work.kind) {
      case 'activity': {
        const call = this.calls.findLast(({ instanceId, activity }) => instanceId === id && activity === work.name);
        const state = call && (STATES[call.outcome] ?? '');
        return `activity '${work.name}'${state ?? ', which has not been called: is its queue served?'}`;
      }
      case 'timer':
        return `a timer that is due at ${work.fireAt.toISOString()}`;
      case 'child':
        return `its child '${work.instanceId}'`;
      case 'start':
        return `the start of '${work.instanceId}'`;
      case 'message':
        return `its message to '${work.instanceId}'`;
      case 'event':
      case 'queue':
        return describeMessage(work);
      default:
        return work satisfies never;
    }
  }
}
