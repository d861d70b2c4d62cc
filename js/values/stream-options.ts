// The options of a stream, for its writers.

import { type Duration, parseDuration } from '../util/duration.ts';
import { checkOptions, duration, type OptionTable, whole } from '../util/options.ts';

/** Options of a stream. They are those of each write: the last write decides. */
export interface StreamOptions {
  /** The last entries that stay at least. Entries before them are deleted, some at a time. Default: all. */
  maxEntries?: number;
  /** The time for which an entry stays at least. It is deleted some minutes later. Default: as long as the instance. */
  retain?: Duration;
}

/** The entries of a stream that stay. */
export interface StreamKeep {
  /** At least so many of the last entries; `null`: all. */
  readonly entriesMax: number | null;
  /** Time for which an entry stays at least, ms; `null`: for as long as its instance. */
  readonly retainMs: number | null;
}

const STREAM_OPTIONS: OptionTable = { maxEntries: whole(1), retain: duration(1) };

/**
 * Returns the limits that the options name.
 *
 * @param where - the beginning of an error: `ctx.stream`
 * @throws TypeError when an option is wrong
 */
export function keepOf(options: StreamOptions | undefined, where: string): StreamKeep {
  const { maxEntries, retain } = checkOptions(options, STREAM_OPTIONS, where) ?? {};
  return {
    entriesMax: maxEntries ?? null,
    retainMs: retain === undefined ? null : parseDuration(retain, `${where}: retain`),
  };
}
