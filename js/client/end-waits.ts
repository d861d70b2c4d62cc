// Waits of clients for the ends of instances. A wait that runs out of time says why the instance does not go on.

import { TimeoutError } from '../errors/errors.ts';
import type { PendingReply, StorePort } from '../store/providers.ts';
import { NODE_TIMERS } from '../util/timers.ts';
import { shareWorkers } from './description.ts';
import { describeInstance } from './instance-description.ts';
import type { InstanceStatus } from './instance-status.ts';
import type { Requests } from './requests.ts';
import { waitReason } from './wait-reason.ts';
import { type WaitLimits, within } from './watching.ts';
import type { WorkerWatch } from './worker-watch.ts';

/** The longest time that finding the reason for an overdue wait may take, ms. */
const REASON_MS = 1_000;
/** Time without a change of an instance after which its status says why it does not go on, ms. */
const IDLE_MS = 1_000;

/** The waits of one client. */
export class EndWaits {
  readonly port: StorePort;
  private readonly requests: Requests;
  private readonly watch: WorkerWatch;

  constructor(port: StorePort, requests: Requests, watch: WorkerWatch) {
    this.port = port;
    this.requests = requests;
    this.watch = watch;
  }

  /**
   * Waits until an instance has ended, or until it is suspended if `orSuspension`.
   *
   * @throws InstanceNotFoundError when there is no instance of that id
   * @throws TimeoutError when that has not happened in time
   * @throws the reason of the signal when it is aborted first
   */
  async end<T>(id: string, limits: WaitLimits, orSuspension: boolean): Promise<InstanceStatus<T>> {
    limits.signal?.throwIfAborted();
    const over = this.watch.begin();
    try {
      const reply = await this.requests.query('wait', id, () => {
        const begin = (): PendingReply => this.port.open({ kind: 'waitForEnd', id, orSuspension });
        return within(begin, limits, this.port.timers, () => this.late(id, limits));
      });
      return this.requests.statusOf<T>(reply) as InstanceStatus<T>;
    } finally {
      over();
    }
  }

  /** Returns a status with the reason for which the instance does not go on, if that is known. */
  async explained<T>(status: InstanceStatus<T>): Promise<InstanceStatus<T>> {
    const isIdle = status.status === 'Suspended' || Math.abs(Date.now() - status.updatedAt.getTime()) >= IDLE_MS;
    const reason = isIdle ? await this.reasonOf(status) : undefined;
    return reason === undefined ? status : { ...status, reason };
  }

  private async late(id: string, { timeoutMs, signal }: WaitLimits): Promise<never> {
    // A store that does not answer must not hold up the error.
    const read = (): PendingReply => ({ reply: this.readReason(id), abandon() {} });
    const reason = await within(read, { timeoutMs: REASON_MS, signal }, NODE_TIMERS, () => null).catch(() => null);
    const message = `instance '${id}' has not ended within ${timeoutMs} ms`;
    throw new TimeoutError(reason === null ? message : `${message}: ${reason}`, {
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      ...(reason === null ? {} : { reason }),
    });
  }

  private async readReason(id: string): Promise<string | null> {
    const status = this.requests.statusOf(await this.port.request({ kind: 'status', id }));
    return status === null ? null : ((await this.reasonOf(status)) ?? null);
  }

  private async reasonOf(status: InstanceStatus): Promise<string | undefined> {
    if (status.status !== 'Pending' && status.status !== 'Running') return waitReason(status, []);
    const description = await describeInstance(this.port, status.id);
    // The worker of the instance has its orchestration, so the others do not matter.
    const workers = description?.worker === undefined ? await shareWorkers(this.port) : [];
    return waitReason(status, workers, description);
  }
}
