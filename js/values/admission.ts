// When, through which queue, and for how long an instance comes to run: as the store and the history write it.

/** The queue, the start time and the time limit of an instance. Only what is set is there. */
export interface Admission {
  readonly queue?: string;
  /** Its key in the queue. */
  readonly key?: string;
  /** Time from the start until the instance is due. */
  readonly delayMs?: number;
  /** The time at which the instance is due, in ms since 1970. A time in the past is now. */
  readonly startAtMs?: number;
  /** Time from the first turn until the instance is cancelled. */
  readonly timeoutMs?: number;
  /** Time for which its cleanup may last then. */
  readonly graceMs?: number;
}
