// A limit of log lines that are alike, so that no flood of them fills the log.

/** Lines that are logged at once. */
const BURST = 100;

/** Time in which one more line may be logged, in ms. */
const INTERVAL_MS = 200;

/** A burst of lines, and then one line per interval. */
export class LineLimit {
  private readonly clock: () => number;
  private room = BURST;
  private last: number;
  private leftOut = 0;

  /** @param clock - returns a time in ms that never goes back */
  constructor(clock: () => number) {
    this.clock = clock;
    this.last = clock();
  }

  /** Returns the number of lines that were left out before this one; `undefined`: this one is left out, too. */
  admit(): number | undefined {
    const now = this.clock();
    this.room = Math.min(BURST, this.room + (now - this.last) / INTERVAL_MS);
    this.last = now;
    if (this.room < 1) {
      this.leftOut += 1;
      return undefined;
    }
    this.room -= 1;
    const { leftOut } = this;
    this.leftOut = 0;
    return leftOut;
  }
}
