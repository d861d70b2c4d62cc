// Progress: one line that is overwritten in a terminal, and a plain line at intervals elsewhere.

const BAR = 24;
const PLAIN_INTERVAL_MS = 2000;

export class Progress {
  #out;
  #shown = '';
  #last = '';
  #printed = 0;
  #hasEnded = false;

  constructor(out) {
    this.#out = out;
  }

  /** Prints a permanent line. */
  line(text = '') {
    this.#erase();
    this.#out.write(`${text}\n`);
    if (this.#shown !== '') this.#out.write(this.#shown);
  }

  show({ total, settled, started, waiting, workers, seconds }) {
    if (this.#hasEnded) return;
    // The total is not known before the first turn.
    const share = total === 0 ? 0 : settled / total;
    const bar = '█'.repeat(Math.round(share * BAR)).padEnd(BAR, '░');
    const counts = `${settled} of ${total} settled, ${started - settled} under way, ${waiting} await approval`;
    const text = `${bar} ${counts}, worker ${workers}, ${seconds.toFixed(1)} s`;
    this.#last = text;
    if (this.#out.isTTY) {
      this.#erase();
      // A wrapped line could not be overwritten.
      this.#shown = text.slice(0, (this.#out.columns || 80) - 1);
      this.#out.write(this.#shown);
    } else if (performance.now() - this.#printed >= PLAIN_INTERVAL_MS) {
      this.#printed = performance.now();
      this.#out.write(`${text}\n`);
    }
  }

  /** Makes the last progress line permanent, and ends the display. */
  end() {
    this.#erase();
    this.#shown = '';
    this.#hasEnded = true;
    if (this.#last !== '') this.#out.write(`${this.#last}\n`);
  }

  #erase() {
    if (this.#shown !== '') this.#out.write('\r\x1b[K');
  }
}
