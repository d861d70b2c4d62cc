// The options of a client and of its starts.

import { checkLogger, LOG_LEVELS, type Logger, type LogLevel } from '../logging/logger.ts';
import { INSTANCE_OPTIONS, type InstanceOptions } from '../orchestration/call-options.ts';
import { checkTelemetry, type Telemetry } from '../tracing/telemetry-hooks.ts';
import { named, type OptionTable, oneOf } from '../util/options.ts';
import { CONFLICTS, type OnConflict } from '../values/conflicts.ts';
import { type ClientLimits, checkClientLimits } from '../values/limits.ts';
import { KEYED_START_OPTIONS, type KeyedStartOptions } from './start-key.ts';

/** Options of a {@link Client}. */
export interface ClientOptions {
  /**
   * Size limits for values and messages. Default: the limits of the last runtime that was made with the same provider
   * object and limits of its own.
   */
  limits?: ClientLimits;
  /** Traces the client's calls: the return value of `openTelemetry` of `perdure/telemetry`. Default: no tracing. */
  telemetry?: Telemetry;
  /**
   * Receives a warning when a client of this provider object waits for 1 s and no runtime runs on the store. The
   * clients of one provider object share the logger of the first one. Default: stderr, as for a runtime.
   */
  logger?: Logger;
  /** The least severe level that is logged; `'silent'` logs nothing. Default `'info'`. */
  logLevel?: LogLevel;
}

/** Options of {@link Client.startOrchestration}. */
export interface StartOptions extends InstanceOptions, KeyedStartOptions {
  /** Behaviour when the id is in use. Default `'error'`. */
  onConflict?: OnConflict;
}

/** Options of {@link Client.start}. */
export interface TypedStartOptions extends Omit<StartOptions, 'version'> {
  /** Id of the new instance. Default: a UUID of version 7. */
  id?: string;
}

/** The checks of {@link ClientOptions}. */
export const CLIENT_OPTIONS = {
  limits: checkClientLimits,
  telemetry: checkTelemetry,
  logger: checkLogger,
  logLevel: oneOf(...LOG_LEVELS),
} satisfies OptionTable;

/** The checks of {@link StartOptions}. */
export const START_OPTIONS = {
  ...INSTANCE_OPTIONS,
  ...KEYED_START_OPTIONS,
  onConflict: oneOf(...CONFLICTS),
} satisfies OptionTable;

const { version: _, ...TYPED_OPTIONS } = START_OPTIONS;

/** The checks of {@link TypedStartOptions}. */
export const TYPED_START_OPTIONS = { ...TYPED_OPTIONS, id: named };
