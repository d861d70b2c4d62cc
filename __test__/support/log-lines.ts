// The log of a process whose runtime has no logger of its own: text on stderr.

/** A line about a failure, with the indented lines that belong to it. */
const FAILURE = /^\d{4}-\S+Z (?:WARN |ERROR) perdure: .*\n(?: {4}.*\n)*/gm;

/** Returns a text without the lines that Perdure has logged about failures. */
export function withoutFailures(text: string): string {
  return text.replace(FAILURE, '');
}
