// When, and through which queue, an instance comes to run: as the store and the history write it.

/** The queue and the start time of an instance. Only what is set is there. */
export interface Admission {
  readonly queue?: string;
  /** Its key in the queue. */
  readonly key?: string;
  /** Time from the start until the instance is due. */
  readonly delayMs?: number;
  /** The time at which the instance is due, in ms since 1970. A time in the past is now. */
  readonly startAtMs?: number;
}
