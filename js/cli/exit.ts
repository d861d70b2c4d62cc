// Exit codes of the command line, and its error texts.

import { CommanderError } from 'commander';

import { InstanceNotFoundError, PerdureError, QueueNotFoundError, TimeoutError } from '../errors/errors.ts';
import { printable } from './text.ts';

/** Exit codes, as `perdure --help` lists them. */
export const EXIT = {
  ok: 0,
  /** The store could not be reached, or refused the request. */
  failed: 1,
  /** The arguments are wrong: nothing was done. */
  usage: 2,
  /** There is no instance, schedule or queue of that name. */
  notFound: 3,
  /**
   * The command ran, and its result is bad: a history does not fit, a check of the doctor failed, an instance that was
   * waited for failed, a value is missing.
   */
  unwell: 4,
  /** The timeout is over. */
  timeout: 5,
} as const;

/** Ends a command with an explicit exit code. Its message is shown without a stack. */
export class Exit extends Error {
  readonly exitCode: number;

  constructor(exitCode: number, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** Returns the error for a wrong argument. */
export function usageError(message: string): Exit {
  return new Exit(EXIT.usage, message);
}

/** Throws the error of a call. An error that code of an instance threw is a bad result. */
export function refusal(error: unknown): never {
  throw error instanceof PerdureError ? error : new Exit(EXIT.unwell, printable(String(error)));
}

/** Returns the exit code for any error that ended a command. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof Exit) return error.exitCode;
  // Help and version are not errors, and end with 0.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  if (error instanceof InstanceNotFoundError || error instanceof QueueNotFoundError) return EXIT.notFound;
  if (error instanceof TimeoutError) return EXIT.timeout;
  // The client checks its arguments before it asks the store.
  if (error instanceof TypeError) return EXIT.usage;
  return EXIT.failed;
}

/** Returns name, code and message of an error, as `--json` prints them. */
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

/** Returns the text of an error. Errors of Perdure are written for people; any other error may need its stack. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return withoutPassword(String(error));
  const isTold = error instanceof Exit || error instanceof PerdureError || error instanceof TypeError;
  return withoutPassword(isTold ? error.message : (error.stack ?? error.message));
}

/** Masks the password of a URL. Errors of a provider contain none; this is for URLs in the messages of other errors. */
export function withoutPassword(text: string): string {
  return text.replace(/(\/\/[^\s:/@]*):[^\s/]*@/g, '$1:***@');
}
