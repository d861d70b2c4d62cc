/** The end of what goes on until it is told to end. */
export class Stop {
  #isSet = false;
  readonly #waiting = new Set<() => void>();

  get isSet(): boolean {
    return this.#isSet;
  }

  set(): void {
    this.#isSet = true;
    for (const wake of this.#waiting) wake();
  }

  /** Resolves after so long, sooner when it is set. */
  async pause(ms: number): Promise<void> {
    if (this.#isSet) return;
    await new Promise<void>((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, ms);
      this.#waiting.add(wake);
    });
  }

  /** Does something so often in a second, whatever became of the last time; a second that was missed is not made up for. */
  async everyMs(ms: number, act: () => void): Promise<void> {
    let due = performance.now();
    while (!this.#isSet) {
      act();
      due = Math.max(due + ms, performance.now());
      await this.pause(due - performance.now());
    }
  }
}
