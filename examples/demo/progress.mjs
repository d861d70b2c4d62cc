// Progress: one line that is written over in a terminal, a plain line now and then elsewhere.

const BAR = 24;
const PLAIN_INTERVAL_MS = 2000;

export class Progress {
  #out;
  #shown = '';
  #printed = 0;

  constructor(out) {
    this.#out = out;
  }

  /** A line that stays. */
  line(text = '') {
    this.#erase();
    this.#out.write(`${text}\n`);
    if (this.#shown !== '') this.#out.write(this.#shown);
  }

  show({ total, settled, started, waiting, workers, seconds }) {
    const share = total === 0 ? 0 : settled / total;
    const bar = '█'.repeat(Math.round(share * BAR)).padEnd(BAR, '░');
    const text = `${bar} ${settled} of ${total} settled, ${started - settled} under way, ${waiting} await approval, worker ${workers}, ${seconds.toFixed(1)} s`;
    if (this.#out.isTTY) {
      this.#erase();
      // A line that wraps could not be written over.
      this.#shown = text.slice(0, this.#out.columns - 1);
      this.#out.write(this.#shown);
    } else if (performance.now() - this.#printed >= PLAIN_INTERVAL_MS) {
      this.#printed = performance.now();
      this.#out.write(`${text}\n`);
    }
  }

  /** The progress line goes; lines that stay are left. */
  end() {
    this.#erase();
    this.#shown = '';
  }

  #erase() {
    if (this.#shown !== '') this.#out.write('\r\x1b[K');
  }
}
