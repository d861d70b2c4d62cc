// With which code the command line ends, and what it says of an error.

import { CommanderError } from 'commander';

import { InstanceNotFoundError, PerdureError, TimeoutError } from '../errors/errors.ts';

/** Exit codes, as `perdure --help` lists them. */
export const EXIT = {
  ok: 0,
  /** The store could not be reached, or refused what was asked. */
  failed: 1,
  /** The arguments are wrong: nothing was done. */
  usage: 2,
  /** There is no instance of that id. */
  notFound: 3,
  /** It was done, and what came of it is not good: a history does not fit, a check of the doctor failed, an instance that was waited for failed. */
  unwell: 4,
  /** The time was over. */
  timeout: 5,
} as const;

/** What ends a command with another code than its error would say. Its message is shown without a stack. */
export class Exit extends Error {
  readonly exitCode: number;

  constructor(exitCode: number, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** An argument that is wrong in itself. */
export function usageError(message: string): Exit {
  return new Exit(EXIT.usage, message);
}

/** The exit code for whatever ended a command. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof Exit) return error.exitCode;
  // Help and version are no errors, and end with 0.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  if (error instanceof InstanceNotFoundError) return EXIT.notFound;
  if (error instanceof TimeoutError) return EXIT.timeout;
  // The client checks its arguments before it asks the store.
  if (error instanceof TypeError) return EXIT.usage;
  return EXIT.failed;
}

/** Name, code and message of an error, as `--json` tells it. */
export function errorData(error: unknown): { name: string; message: string; code?: string | number } {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error) };
  const { code } = error as Error & { code?: unknown };
  const named = error instanceof Exit ? 'Error' : error.name;
  return {
    name: named,
    message: withoutPassword(error.message),
    ...(typeof code === 'string' || typeof code === 'number' ? { code } : {}),
  };
}

/** What is said of an error: what Perdure throws is written for people, anything else may need its stack. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return withoutPassword(String(error));
  const isTold = error instanceof Exit || error instanceof PerdureError || error instanceof TypeError;
  return withoutPassword(isTold ? error.message : (error.stack ?? error.message));
}

/** No error of a provider holds a password; this is for an address in a message of something else. */
export function withoutPassword(text: string): string {
  return text.replace(/(\/\/[^\s:/@]*):[^\s/]*@/g, '$1:***@');
}
