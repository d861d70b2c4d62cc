/** Durable orchestrations: plain generator functions that go on where they were after a crash. */

export { type ActivityDefinition, type ActivityFunction, defineActivity } from './activity.ts';
export { activityContext, type ActivityContext } from './activity-context.ts';
export type { ActivityOptions, InlineOptions, RetryOptions } from './activity-options.ts';
export type { AsyncCodec } from './async-codec.ts';
export { type Channel, CLOSED, type Closed } from './channel.ts';
export { Client, type ClientOptions, type StartOptions, type TypedStartOptions } from './client.ts';
export type { CodecContext, DecodeContext } from './codec-context.ts';
export type { Branch, BranchValue, BranchValues, CombineOptions, RaceResult, SelectResult, SettledRaceResult, SettledSelectResult } from './combinators.ts';
export { contextLocal, type ContextLocal } from './context-local.ts';
export type { StoreDescription, WorkerAbout, WorkerInfo } from './description.ts';
export type { Deferred } from './deferred.ts';
export type { Duration } from './duration.ts';
export type { TraceFields, TraceLevel } from './log-fields.ts';
export {
  ActivityError,
  CancelledError,
  DeterminismError,
  InstanceExistsError,
  InstanceNotFoundError,
  LimitError,
  NondeterminismError,
  type NondeterminismReport,
  NonRetryableError,
  NotRegisteredError,
  PayloadError,
  PerdureError,
  type PerdureErrorOptions,
  ProviderError,
  RetryAfterError,
  RuntimeStateError,
  SchemaVersionError,
  SubOrchestrationError,
  TimeoutError,
} from './error-classes.ts';
export type { FiberFuture, Future } from './future.ts';
export type { InstanceHandle } from './handle.ts';
export type { ExportedEvent, HistoryEvent, HistoryEventKind, HistoryExport, HistoryPage, HistoryPageOptions } from './history.ts';
export type { CustomStatus, EndedState, InstanceState, InstanceStatus } from './instance-status.ts';
export type { ClientLimits, RuntimeLimits } from './limits.ts';
export type { InstanceFilter, InstanceList, InstancePage, ListOptions, PruneExecutionsOptions, PruneOptions } from './listing.ts';
export type { Logger, LogLevel } from './logger.ts';
export type { DurationHistogram, LaneMetrics, RuntimeMetrics } from './metrics.ts';
export {
  type ChildOptions,
  type ContinueAsNewOptions,
  defineOrchestration,
  type InputArguments,
  type InstanceOptions,
  type OrchestrationContext,
  type OrchestrationDefinition,
  type OrchestrationFunction,
  type OrchestrationGenerator,
  type OrchestrationOptions,
} from './orchestration.ts';
export type { OnEnd } from './cancelling.ts';
export { type PostgresOptions, PostgresProvider, type PostgresTlsOptions } from './postgres-provider.ts';
export { type Provider, type ProviderOptions, type SqliteBackupOptions, SqliteProvider, type SqliteOptions } from './providers.ts';
export type { EndState } from './binding.ts';
export type { InstanceEvent } from './lane.ts';
export type { Recoded, RecodeFailure, RecodeOptions, RecodeProgress } from './recode.ts';
export { Runtime, type RuntimeEvents, type RuntimeOptions } from './runtime.ts';
export type { SchemaInput, SchemaIssue, SchemaOutput, SchemaResult, StandardSchema } from './schema.ts';
export type { OverdueInstances, StoreStats } from './stats.ts';
export type { CheckStoreOptions, StoreCheck, StoreFinding } from './store-check.ts';
export type { Codec, EncodedText } from './stored-text.ts';
export type { Telemetry } from './telemetry-hooks.ts';
export type { StatusChange, StatusChangesOptions } from './watching.ts';
