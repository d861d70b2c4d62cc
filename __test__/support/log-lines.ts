// The log of a process whose runtime has no logger of its own: a line of JSON each on stderr.

const FAILURE = /^\{"time":"[^"]+","level":"(?:warn|error)","name":"perdure",.*\n/gm;

/** Returns a text without the lines that Perdure has logged about failures. */
export function withoutFailures(text: string): string {
  return text.replace(FAILURE, '');
}
