// The owner of a stored text, as a codec is told it. It is the same for each copy of the value, so that every reader
// can name it.

import { batchOf } from './batch.ts';

/**
 * The owner of the value of a text, and the value's place in it. A value may be stored more than once, as an input is
 * with a parent and its child: all copies have the same context.
 */
export interface CodecContext {
  /**
   * Id of the instance that owns the value: for an event or an input the receiver, for an output or an error the
   * instance that ended with it. For an input of a batch it is the key of the batch, because the sender does not know
   * which instance takes the input.
   */
  readonly instance: string;
  /**
   * Execution of that instance, from 1. `null` for a value of the instance as a whole, whose senders or parent cannot
   * know the execution.
   */
  readonly execution: number | null;
  /**
   * Name of the value: `'input'`, `'output'`, `'error'`, `'status'` (the custom status), `'state:<name>'` (a value of
   * `ctx.state`), `'stream:<name>'` (an entry of a stream), `'cancellation'`, `'termination'` and `'suspension'` (the
   * reasons given), `'event:<name>'`, `'queue:<name>'`, `'batch:<orchestration>'` (an input of a batch),
   * `'ask:<id>:output'` and `'ask:<id>:error'` (the answer to an update). For the activity that event `<n>` of the
   * execution has scheduled: `'activity:<n>:input'`, `'activity:<n>:output'`, `'activity:<n>:error'` and
   * `'activity:<n>:heartbeat'`.
   */
  readonly place: string;
  /**
   * The instance, the execution and the place as one text, to be authenticated with the value: the additional data of
   * AES-GCM and similar ciphers.
   */
  readonly aad: string;
}

/** The context in which a text is decoded. */
export interface DecodeContext extends CodecContext {
  /** The key that `encode` named; `null` when it named none. */
  readonly keyId: string | null;
}

/** Returns the user's name for a value of the state, for errors. */
export function statePath(name: string): string {
  return `state '${name}'`;
}

/** Returns the user's name for an entry of a stream, for errors. */
export function streamPath(name: string): string {
  return `entry of stream '${name}'`;
}

const IS_ERROR = /^(activity:\d+:|ask:.*:)?error$/s;

/** The owner and the place of a text. */
export class Place implements DecodeContext {
  readonly instance: string;
  readonly execution: number | null;
  readonly place: string;
  readonly keyId: string | null;

  constructor(instance: string, execution: number | null, place: string, keyId: string | null = null) {
    this.instance = instance;
    this.execution = execution;
    this.place = place;
    this.keyId = keyId;
  }

  static input(instance: string, execution: number): Place {
    return new Place(instance, execution, 'input');
  }

  /** Returns the place of an instance's end. Its parent receives the end without the execution. */
  static end(instance: string, what: 'output' | 'error' | 'termination'): Place {
    return new Place(instance, null, what);
  }

  /**
   * Returns a place that is not of one execution: an execution leaves the value to the next one, or its sender does not
   * know the execution.
   */
  static ofInstance(instance: string, what: 'status' | 'cancellation' | 'suspension'): Place {
    return new Place(instance, null, what);
  }

  /** Returns the place of a value of the state. */
  static ofState(instance: string, name: string): Place {
    return new Place(instance, null, `state:${name}`);
  }

  /** Returns the place of the entries of a stream. */
  static ofStream(instance: string, name: string): Place {
    return new Place(instance, null, `stream:${name}`);
  }

  /** Returns the place of the answer to an ask. */
  static ofAsk(instance: string, ask: string, what: 'output' | 'error'): Place {
    return new Place(instance, null, `ask:${ask}:${what}`);
  }

  /** Returns the place of a message: an event or a queue message of a name, or an input of a batch. */
  static mail(instance: string, { kind, name }: { readonly kind: 'event' | 'queue'; readonly name: string }): Place {
    const batch = kind === 'queue' ? batchOf(name) : undefined;
    if (batch !== undefined) return new Place(batch.key, null, `batch:${batch.orchestration}`);
    return new Place(instance, null, `${kind}:${name}`);
  }

  /** Returns the place of a value of an activity. `operation` is the event that scheduled the activity. */
  static activity(
    instance: string,
    execution: number,
    operation: number,
    what: 'input' | 'output' | 'error' | 'heartbeat',
  ): Place {
    return new Place(instance, execution, `activity:${operation}:${what}`);
  }

  /** True for the place of an error. For an error some text is always stored. */
  get isOfError(): boolean {
    return IS_ERROR.test(this.place);
  }

  get aad(): string {
    return JSON.stringify([this.instance, this.execution, this.place]);
  }

  withKey(keyId: string | null): Place {
    return new Place(this.instance, this.execution, this.place, keyId);
  }
}
