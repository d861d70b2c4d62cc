/** Durable orchestrations: plain generator functions that go on where they were after a crash. */

export { type ActivityDefinition, type ActivityFunction, defineActivity } from './activity/activity.ts';
export { type ActivityContext, activityContext } from './activity/activity-context.ts';
export type { ActivityKey, ActivityOptions, InlineOptions, RetryOptions } from './activity/activity-options.ts';
export type { ActivityStream } from './activity/attempt-streams.ts';
export type { EndState } from './binding/jobs.ts';
export { Client } from './client/client.ts';
export type { ClientOptions, StartOptions, TypedStartOptions } from './client/client-options.ts';
export type { RegisteredNames, StoreDescription, WorkerDescription, WorkerInfo } from './client/description.ts';
export type { EntityHandle } from './client/entities.ts';
export { type EventStreamOptions, eventStream } from './client/event-stream.ts';
export type { ExecutionInfo, ExecutionList, ExecutionsOptions, ExecutionsPage } from './client/executions.ts';
export type { InstanceFacts, MailboxFacts } from './client/facts.ts';
export type { InstanceHandle, ResultOptions } from './client/handle.ts';
export type {
  ExportedEvent,
  HistoryEvent,
  HistoryEventKind,
  HistoryExport,
  HistoryOptions,
  HistoryPage,
  HistoryPageOptions,
} from './client/history.ts';
export type { HistoryClient } from './client/history-client.ts';
export type { StatusOptions } from './client/inputs.ts';
export type {
  AwaitedMessage,
  FiberWait,
  InstanceDescription,
  InstanceQueue,
  OpenActivity,
  OpenChild,
  OpenTimer,
  QueuePlace,
  WorkerName,
} from './client/instance-description.ts';
export type { CustomStatus, EndedState, InstanceState, InstanceStatus } from './client/instance-status.ts';
export type {
  InstanceFilter,
  InstanceList,
  InstancePage,
  ListOptions,
  PruneExecutionsOptions,
  PruneOptions,
} from './client/listing.ts';
export type { LogLine, LogsOptions, LogsPage } from './client/logs.ts';
export type { PublicationClient } from './client/publication-client.ts';
export type { QueryOptions } from './client/querying.ts';
export type { KeyLimits, QueueLimits, QueueRate } from './client/queue-limits.ts';
export type { QueueInfo, Queues } from './client/queues.ts';
export type { Recoded, RecodeFailure, RecodeOptions, RecodeProgress } from './client/recode.ts';
export type {
  PauseScheduleOptions,
  RunScheduleOptions,
  ScheduleInfo,
  ScheduleRun,
  Schedules,
} from './client/schedules.ts';
export type { Debounce, KeyedStartOptions, Throttle } from './client/start-key.ts';
export type { InstanceStart, StartOutcome } from './client/starting.ts';
export type { StateChange, StateValue, WatchStateOptions } from './client/state.ts';
export type { OverdueInstances, QueueDepth, StoreStats } from './client/stats.ts';
export type { CheckStoreOptions, StoreCheck, StoreFinding } from './client/store-check.ts';
export type { StoreClient } from './client/store-client.ts';
export type { ReadStreamOptions, StreamEntry, StreamInfo, StreamReader, StreamReset } from './client/streams.ts';
export type { Takeover } from './client/takeovers.ts';
export type { ListTokensOptions, TokenInfo } from './client/tokens.ts';
export type { DeleteOptions, InstanceTree, TreeOptions } from './client/tree.ts';
export type { UpdateOptions, UpdateWithStartOptions } from './client/updating.ts';
export type {
  StatusChange,
  StatusChangeOptions,
  StatusChangesOptions,
  WaitOptions,
} from './client/watching.ts';
export type { TransactionClient, TransactionStartOptions, TypedTransactionStartOptions } from './client/within.ts';
export type {
  Branch,
  BranchOutcomes,
  BranchValue,
  BranchValues,
  CombineOptions,
  RaceResult,
  SelectResult,
  SettledRaceResult,
  SettledSelectResult,
} from './driver/branch.ts';
export type { OnEnd } from './driver/cancelling.ts';
export { type Channel, CLOSED, type Closed } from './driver/channel.ts';
export { type ContextLocal, contextLocal } from './driver/context-local.ts';
export type { Deferred } from './driver/deferred.ts';
export type { FiberFuture, Future } from './driver/future.ts';
export type { ErrorJson } from './errors/error-json.ts';
export {
  ActivityError,
  CancelledError,
  CompensationError,
  DatasourceError,
  DeterminismError,
  InstanceExistsError,
  InstanceNotFoundError,
  LimitError,
  MapItemError,
  NondeterminismError,
  type NondeterminismReport,
  NonRetryableError,
  NotRegisteredError,
  PayloadError,
  PerdureError,
  type PerdureErrorOptions,
  ProviderError,
  QueueNotFoundError,
  RetryAfterError,
  RuntimeStateError,
  SchemaVersionError,
  StreamClosedError,
  SubOrchestrationError,
  SuspendedError,
  TimeoutError,
  WrongDefinitionError,
} from './errors/errors.ts';
export type { TraceFields, TraceLevel } from './logging/fields.ts';
export type { Logger, LogLevel } from './logging/logger.ts';
export type { AdmissionOptions, QueuedOptions, TimeLimitOptions } from './orchestration/admission.ts';
export type { Batches, BatchOptions } from './orchestration/batch.ts';
export type {
  ChildOptions,
  DetachedOptions,
  InputArguments,
  InstanceOptions,
  TypedDetachedOptions,
} from './orchestration/call-options.ts';
export type {
  CallableEntity,
  CalledEntity,
  EntityAnswer,
  EntityInput,
  EntityReading,
} from './orchestration/called-entity.ts';
export {
  defineOrchestration,
  type InputOf,
  type OrchestrationDefinition,
  type OrchestrationFunction,
  type OrchestrationGenerator,
  type OrchestrationOptions,
  type OutputOf,
} from './orchestration/definition.ts';
export {
  defineEntity,
  type EntityContext,
  type EntityDefinition,
  type EntityHandler,
  type EntityHandlers,
  type EntityOptions,
  type EntityReads,
} from './orchestration/entities.ts';
export type { EntityAddress, Lockable, LockDefinition } from './orchestration/lockable.ts';
export { defineLock, type LockOptions } from './orchestration/locks.ts';
export type { OrchestrationMessages } from './orchestration/message-methods.ts';
export {
  defineEvent,
  defineQueue,
  type EventDefinition,
  type MessageArguments,
  type QueueDefinition,
} from './orchestration/messages.ts';
export type { ContinueAsNewOptions, OrchestrationContext } from './orchestration/orchestration-context.ts';
export type { MapOptions, OrchestrationPatterns, Undo } from './orchestration/patterns.ts';
export { defineQuery, type QueryDefinition, type QueryHandler } from './orchestration/queries.ts';
export type {
  ReceiverConflict,
  ReceiverDefinition,
  ReceiverOptions,
  ReceiverStart,
  SendArguments,
  SendOptions,
} from './orchestration/send-options.ts';
export type { OrchestrationStream } from './orchestration/streams.ts';
export type { Token, TokenOptions } from './orchestration/token-types.ts';
export {
  defineUpdate,
  type UpdateDefinition,
  type UpdateHandler,
  type UpdateHandlerOptions,
} from './orchestration/updates.ts';
export type { InstanceEvent } from './runtime/lane.ts';
export type { RuntimeEvents } from './runtime/main-host.ts';
export { Runtime } from './runtime/runtime.ts';
export type { KeepLogs, RuntimeOptions, RuntimeStartOptions, SessionOptions } from './runtime/runtime-options.ts';
export { defineSchedule, type ScheduleDefinition } from './schedules/schedule.ts';
export type { DueOutcome, Overlap, RunStart, ScheduleSpec } from './schedules/schedule-data.ts';
export type { ScheduleOptions, ScheduleStart, ScheduleTimes } from './schedules/schedule-options.ts';
export type { Times } from './schedules/times.ts';
export { type PostgresOptions, PostgresProvider, type PostgresTlsOptions } from './store/postgres-provider.ts';
export {
  type Provider,
  type ProviderOptions,
  type SqliteBackupOptions,
  type SqliteOptions,
  SqliteProvider,
} from './store/providers.ts';
export type {
  ActivityOutcomes,
  DurationHistogram,
  LaneMetrics,
  OrchestrationOutcomes,
  RuntimeMetrics,
} from './tracing/metrics.ts';
export type { Telemetry } from './tracing/telemetry-hooks.ts';
export type { Duration, IsoTime } from './util/duration.ts';
export type { Json } from './util/plain.ts';
export type { AsyncCodec } from './values/async-codec.ts';
export type { CodecContext, DecodeContext } from './values/codec-context.ts';
export type { OnConflict } from './values/conflicts.ts';
export type { ClientLimits, RuntimeLimits } from './values/limits.ts';
export type { SchemaInput, SchemaIssue, SchemaOutput, SchemaResult, StandardSchema } from './values/schema.ts';
export type { Codec, EncodedText } from './values/stored-text.ts';
export type { StreamOptions } from './values/stream-options.ts';
export type { ErrorClass, ValueType, ValueTypes } from './values/value-types.ts';
