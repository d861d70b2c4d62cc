// Whose value a stored text is, as a codec is told: the same wherever the value is kept, so that every reader can say it.

/** Whose value a text is, and which one of it. The value is kept at several places, as an input is with a parent and its child: all have the same context. */
export interface CodecContext {
  /** Id of the instance that the value belongs to: of an event or an input its receiver, of an output or an error the instance that ended so. */
  readonly instance: string;
  /** Execution of that instance, from 1; `null`: of the instance as a whole, for what its senders and its parent cannot tell the execution of. */
  readonly execution: number | null;
  /**
   * Which value it is: `'input'`, `'output'`, `'error'`, `'status'` (the custom status), `'cancellation'`, `'termination'` and `'suspension'` (the reasons
   * given), `'event:<name>'`, `'queue:<name>'`, and of the activity that event `<n>` of the execution has scheduled `'activity:<n>:input'`,
   * `'activity:<n>:output'`, `'activity:<n>:error'` and `'activity:<n>:heartbeat'`.
   */
  readonly place: string;
  /** All of this as one text, to be authenticated with the value: the additional data of AES-GCM and of its like. */
  readonly aad: string;
}

/** What a text is decoded with. */
export interface DecodeContext extends CodecContext {
  /** The key that `encode` named; `null` when it named none. */
  readonly keyId: string | null;
}

const IS_ERROR = /^(activity:\d+:)?error$/;

/** Whose value a text is. */
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

  /** How an instance has ended, which its parent hears without the execution. */
  static end(instance: string, what: 'output' | 'error' | 'termination'): Place {
    return new Place(instance, null, what);
  }

  /** What an execution leaves to the next one, or somebody sends without knowing which that is. */
  static ofInstance(instance: string, what: 'status' | 'cancellation' | 'suspension'): Place {
    return new Place(instance, null, what);
  }

  /** `mailbox` is named as in `EnginePort.next`. */
  static mail(instance: string, mailbox: string): Place {
    return new Place(instance, null, `${mailbox.startsWith('e') ? 'event' : 'queue'}:${mailbox.slice(1)}`);
  }

  /** `operation`: the event that scheduled the activity. */
  static activity(
    instance: string,
    execution: number,
    operation: number,
    what: 'input' | 'output' | 'error' | 'heartbeat',
  ): Place {
    return new Place(instance, execution, `activity:${operation}:${what}`);
  }

  /** Whether it is the place of an error, of which something is always stored. */
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
