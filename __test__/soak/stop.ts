/** A signal that ends periodic work. */
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

  /** Resolves after `ms`, or earlier when the signal is set. */
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

  /**
   * Calls `act` every `ms` until the signal is set. It does not wait for the work that `act` begins, and does not make
   * up for calls that were missed.
   */
  async everyMs(ms: number, act: () => void): Promise<void> {
    let due = performance.now();
    while (!this.#isSet) {
      act();
      due = Math.max(due + ms, performance.now());
      await this.pause(due - performance.now());
    }
  }
}
