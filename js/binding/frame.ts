// The form in which commands, jobs and deliveries cross to the addon and back: their texts as one string, their numbers
// in an array that both sides share. `crates/node/src/frame.rs` is the other side.

// Positions in the array: the kind, the facts, the bits of the texts that are there, the lengths of the texts.
const NUMBERS = 18;
const KIND = 0;
const FACTS = 1;
const PRESENT = 9;
const LENGTHS = 10;

/** The shared array. Each side reads it before the other writes again. */
export class Frame {
  readonly numbers = new Float64Array(NUMBERS);

  /** Kind of the answer. */
  get kind(): number {
    return this.numbers[KIND] as number;
  }

  /** Returns a fact of the answer, by its place from 0. */
  fact(n: number): number {
    return this.numbers[FACTS + n] as number;
  }

  /** Returns a text of the answer, by its place from 0. `text` holds all its texts. */
  text(text: string, n: number): string | null {
    const { numbers } = this;
    if (((numbers[PRESENT] as number) & (1 << n)) === 0) return null;
    let from = LENGTHS;
    let start = 0;
    for (; from < LENGTHS + n; from += 1) start += numbers[from] as number;
    const length = numbers[from] as number;
    return start === 0 && length === text.length ? text : text.slice(start, start + length);
  }

  /** Returns a text of the answer that is always there. */
  required(text: string, n: number): string {
    return this.text(text, n) ?? '';
  }

  /** Writes the kind of a command without texts, and its facts. */
  put(kind: number, ...facts: number[]): void {
    const { numbers } = this;
    numbers[KIND] = kind;
    for (let n = 0; n < facts.length; n += 1) numbers[FACTS + n] = facts[n] as number;
  }

  /** Writes the lengths of a command's texts. Returns the texts as one string. */
  join(...texts: (string | null)[]): string {
    const { numbers } = this;
    let present = 0;
    let all = '';
    for (let n = 0; n < texts.length; n += 1) {
      const text = texts[n] as string | null;
      numbers[LENGTHS + n] = text === null ? 0 : text.length;
      if (text === null) continue;
      present |= 1 << n;
      all += text;
    }
    numbers[PRESENT] = present;
    return all;
  }
}
