// The streams that an orchestration writes: `ctx.stream`.

import type { FiberScheduler } from '../driver/scheduler.ts';
import { StreamClosedError } from '../errors/errors.ts';
import { checkName } from '../util/options.ts';
import { streamPath } from '../values/codec-context.ts';
import { toPayload } from '../values/payload.ts';
import { checkStreamBytes, entryBytes } from '../values/stream-entries.ts';
import { keepOf, type StreamKeep, type StreamOptions } from '../values/stream-options.ts';
import type { ValueRules } from './published-state.ts';

/** A stream of the instance, as its orchestration writes it: {@link OrchestrationContext.stream}. */
export interface OrchestrationStream {
  /** Name of the stream. */
  readonly name: string;

  /**
   * Adds an entry. It is stored with the turn, exactly once, and costs no event of the history. A replay writes
   * nothing. `undefined` is an entry, too.
   *
   * @throws PayloadError when the value cannot be stored
   * @throws StreamClosedError when the stream is closed
   * @throws LimitError (`streamBytes`) when the entries since the last wait of the code take more than 16 MiB
   */
  write(value: unknown): void;

  /** Closes the stream for good: its readers end after the last entry. Does nothing when it is closed. */
  close(): void;
}

/** A stream of one execution. */
export class ExecutionStream implements OrchestrationStream {
  readonly name: string;
  readonly #scheduler: FiberScheduler;
  readonly #rules: ValueRules;
  readonly #keep: StreamKeep;

  /** @throws TypeError when the name or an option is wrong */
  constructor(scheduler: FiberScheduler, rules: ValueRules, name: string, options: StreamOptions | undefined) {
    checkName(name, 'name of the stream');
    this.name = name;
    this.#scheduler = scheduler;
    this.#rules = rules;
    this.#keep = keepOf(options, 'ctx.stream');
  }

  write(value: unknown): void {
    const { name } = this;
    this.#scheduler.assertRunning('stream.write');
    const text = toPayload(value, streamPath(name), this.#rules.limits, this.#rules.types);
    const bytes = this.#scheduler.streamBytes + entryBytes(text);
    checkStreamBytes(bytes, 'the entries of streams');
    if (!this.#scheduler.ask((port) => port.writeStream(name, text, this.#keep)))
      throw new StreamClosedError(`stream '${name}' is closed`, { stream: name });
    this.#scheduler.streamBytes = bytes;
  }

  close(): void {
    this.#scheduler.assertRunning('stream.close');
    this.#scheduler.ask((port) => port.closeStream(this.name));
  }
}
