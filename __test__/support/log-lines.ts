// Log lines: those of a logger in a test, and those on stderr of a process without a logger of its own.

import type { Logger, TraceFields } from 'perdure';

/** A line that a logger has received. */
export interface Line {
  readonly level: string;
  readonly message: string;
  readonly fields: TraceFields;
}

/** The lines that a logger has received. */
export interface LogLines {
  readonly lines: Line[];
  readonly logger: Logger;
  /** Resolves with the first line whose message has this text. */
  line(text: string): Promise<Line>;
}

export function collectLines(): LogLines {
  const lines: Line[] = [];
  const waits: { text: string; found(line: Line): void }[] = [];
  const at = (level: string) => (fields: TraceFields, message: string) => {
    const line = { level, message, fields };
    lines.push(line);
    for (const { text, found } of waits) if (message.includes(text)) found(line);
  };
  return {
    lines,
    logger: { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') },
    line: (text) =>
      new Promise((found) => {
        const line = lines.find(({ message }) => message.includes(text));
        if (line === undefined) waits.push({ text, found });
        else found(line);
      }),
  };
}

const FAILURE = /^\{"time":"[^"]+","level":"(?:warn|error)","name":"perdure",.*\n/gm;

/** Returns a text without the lines that Perdure has logged about failures. */
export function withoutFailures(text: string): string {
  return text.replace(FAILURE, '');
}
