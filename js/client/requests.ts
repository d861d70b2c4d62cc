// The requests of one client to its store: traced, and with values as the store has them.

import type { KeyedStartRequest, ReceiverStartRequest, StoreRequest } from '../binding/store.ts';
import { admissionOf } from '../orchestration/admission.ts';
import type { PendingReply, StorePort } from '../store/providers.ts';
import type { ClientCall, Telemetry, TraceContext } from '../tracing/telemetry-hooks.ts';
import { checkName } from '../util/options.ts';
import { Place } from '../values/codec-context.ts';
import { type ClientLimits, limitsOver } from '../values/limits.ts';
import { toPayload } from '../values/payload.ts';
import type { ClientOptions, StartOptions } from './client-options.ts';
import { type InstanceStatus, type StatusData, statusOf } from './instance-status.ts';

export class Requests {
  readonly #port: StorePort;
  readonly #limits: ClientLimits | undefined;
  readonly #telemetry: Telemetry | undefined;

  constructor(port: StorePort, { limits, telemetry }: ClientOptions) {
    this.#port = port;
    this.#limits = limits;
    this.#telemetry = telemetry;
  }

  /**
   * Makes a request that an instance acts on, traced as a producer. `value` is the text that goes with it, as the store
   * keeps it; `target` is the name that the trace shows.
   */
  command(
    operation: string,
    request: StoreRequest & { readonly id: string },
    value: string | null = null,
    target?: string,
  ): Promise<string | null> {
    return this.#traced(producer(operation, request.id, target), (trace) =>
      this.#port.request(traced(request, trace), value),
    );
  }

  /**
   * Starts an instance under a key, traced as a start. Returns `null` when the instance is there, and else the id of
   * the instance that stands for it, or that it has to be sent for.
   */
  async keyedStart(
    request: KeyedStartRequest,
    input: string | null,
  ): Promise<{ readonly kind: 'joined' | 'readdress'; readonly id: string } | null> {
    const { id, name } = request.request;
    const call = producer('start', id, name);
    const reply = await this.#traced(call, (trace) => this.#port.request(traced(request, trace), input));
    return JSON.parse(reply ?? 'null');
  }

  /**
   * Returns the request to start an instance, without its kind, and the input as the store keeps it.
   *
   * @param where - the begin of errors
   * @throws TypeError when the queue and the start time in the options do not fit together
   */
  start(
    id: string,
    name: string,
    input: unknown,
    options: StartOptions,
    where = `orchestration '${name}'`,
  ): ReceiverStartRequest {
    const { version, tags, priority = 0, onConflict = 'error' } = options;
    const tagText = tags === undefined ? null : JSON.stringify(tags);
    const admission = admissionOf(options, where);
    const admitted = admission === undefined ? {} : { admission };
    return {
      request: { id, name, version: version ?? null, tags: tagText, priority, onConflict, ...admitted, trace: null },
      input: this.valueText(input, 'input', Place.input(id, 1)),
    };
  }

  /** Makes a request that an instance answers, traced as a producer. `run` waits for the reply of what it is given. */
  asking<T>(
    request: StoreRequest & { readonly kind: 'ask' },
    value: string | null,
    target: string,
    run: (begin: () => PendingReply) => Promise<T>,
  ): Promise<T> {
    return this.#traced(producer('update', request.id, target), (trace) =>
      run(() => this.#port.open(traced(request, trace), value)),
    );
  }

  /** Issues a request that only reads, or that changes only ended instances. */
  query<T>(operation: string, instanceId: string, run: () => Promise<T>, target?: string): Promise<T> {
    return this.#traced({ ...producer(operation, instanceId, target), isProducer: false }, run);
  }

  /**
   * Makes a request in a transaction of the user's, traced as a producer. `run` is called at once, and this method
   * returns its result or throws its error.
   */
  within<T>(
    operation: string,
    instanceId: string,
    target: string | undefined,
    run: (trace: TraceContext | null) => T | Promise<T>,
  ): T | Promise<T> {
    if (this.#telemetry === undefined) return run(null);
    let made: () => T | Promise<T> = () => run(null);
    const traced = this.#telemetry.call(producer(operation, instanceId, target), async (trace) => {
      try {
        const result = run(trace);
        made = () => result;
      } catch (error) {
        made = () => {
          throw error;
        };
      }
      return made();
    });
    // The caller gets the same error from `made`.
    traced.catch(() => {});
    return made();
  }

  #traced<T>(call: ClientCall, run: (trace: TraceContext | null) => Promise<T>): Promise<T> {
    return this.#telemetry === undefined ? run(null) : this.#telemetry.call(call, run);
  }

  /** Returns the status that the store replied with, or `null` when there is no instance. */
  statusOf<T>(reply: string | null): InstanceStatus<T> | null {
    const data = JSON.parse(reply ?? 'null') as StatusData | null;
    return data === null ? null : statusOf<T>(data, this.#port.texts);
  }

  /** Returns the reason as it is stored. */
  reasonText(
    id: string,
    reason: unknown,
    what: 'cancellation' | 'termination' | 'suspension',
    where: string,
  ): string | null {
    checkName(id, 'instance id');
    if (reason === undefined) return null;
    if (typeof reason !== 'string') throw new TypeError(`${where}: the reason must be a string`);
    return this.valueText(reason, 'reason', what === 'termination' ? Place.end(id, what) : Place.ofInstance(id, what));
  }

  /** The limits that are in force now. */
  get limits(): Required<ClientLimits> {
    return this.#limits === undefined ? this.#port.limits : limitsOver(this.#limits, this.#port.limits);
  }

  /** Returns a value as the store keeps it. */
  valueText(value: unknown, path: string, place: Place): string | null {
    return this.#port.texts.write(toPayload(value, path, this.limits, this.#port.texts.types), path, place);
  }
}

/** Returns a request in which the instance that it starts goes on with a trace. */
function traced(request: StoreRequest, trace: TraceContext | null): StoreRequest {
  if (request.kind === 'start') return { ...request, trace };
  if (request.kind === 'keyedStart') return { ...request, request: { ...request.request, trace } };
  if ((request.kind !== 'send' && request.kind !== 'ask') || request.start === null) return request;
  return { ...request, start: { ...request.start, request: { ...request.start.request, trace } } };
}

function producer(operation: string, instanceId: string, target: string | undefined): ClientCall {
  return { operation, instanceId, isProducer: true, ...(target === undefined ? {} : { target }) };
}
