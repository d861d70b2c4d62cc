// Waits of clients for the ends of instances. A wait that runs out of time says why the instance does not go on.

import { TimeoutError } from '../errors/errors.ts';
import type { StorePort } from '../store/providers.ts';
import { NODE_TIMERS } from '../util/timers.ts';
import { inspect, workersOf } from './description.ts';
import type { InstanceStatus } from './instance-status.ts';
import type { Requests } from './requests.ts';
import { waitReason } from './wait-reason.ts';
import { within } from './watching.ts';
import type { WorkerWatch } from './worker-watch.ts';

/** The longest time that finding the reason for an overdue wait may take, ms. */
const REASON_MS = 1_000;
/** Time without a change of an instance after which its status says why it does not go on, ms. */
const IDLE_MS = 1_000;

/** The waits of one client. */
export class EndWaits {
  private readonly port: StorePort;
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
   */
  async end<T>(id: string, timeoutMs: number | undefined, orSuspension: boolean): Promise<InstanceStatus<T>> {
    const over = this.watch.begin();
    try {
      const reply = await this.requests.query('wait', id, () => {
        const pending = this.port.open({ kind: 'waitForEnd', id, orSuspension });
        return within(pending, timeoutMs, this.port.timers, () => this.late(id, timeoutMs));
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

  private async late(id: string, timeoutMs: number | undefined): Promise<never> {
    const reason = await this.reasonInTime(id);
    const message = `instance '${id}' has not ended within ${timeoutMs} ms`;
    throw new TimeoutError(reason === undefined ? message : `${message}: ${reason}`, {
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      ...(reason === undefined ? {} : { reason }),
    });
  }

  /** A store that does not answer must not hold up the error. */
  private reasonInTime(id: string): Promise<string | undefined> {
    return new Promise((resolve) => {
      const timer = NODE_TIMERS.after(REASON_MS, () => resolve(undefined), true);
      const read = async (): Promise<string | undefined> => {
        const status = this.requests.statusOf(await this.port.request({ kind: 'status', id }));
        return status === null ? undefined : this.reasonOf(status);
      };
      read()
        .catch(() => undefined)
        .then((reason) => {
          timer.clear();
          resolve(reason);
        });
    });
  }

  private async reasonOf(status: InstanceStatus): Promise<string | undefined> {
    const isOpen = status.status === 'Pending' || status.status === 'Running';
    return waitReason(status, isOpen ? workersOf(await inspect(this.port)) : []);
  }
}
