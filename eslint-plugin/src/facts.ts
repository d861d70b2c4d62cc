// Facts about the API of Perdure.

/** Methods of the context, and free functions, that return a future. A test compares the list with the types. */
export const FUTURE_METHODS: ReadonlySet<string> = new Set([
  'scheduleActivity',
  'call',
  'run',
  'scheduleSubOrchestration',
  'callOrchestration',
  'startOrchestration',
  'start',
  'raiseEvent',
  'enqueueEvent',
  'scheduleTimer',
  'sleep',
  'waitForEvent',
  'dequeueEvent',
  'all',
  'allSettled',
  'any',
  'race',
  'raceSettled',
  'select',
  'selectSettled',
  'spawn',
  'deferred',
  'withTimeout',
  'uncancellable',
  'lock',
  'continueAsNew',
  'map',
  'saga',
  'pollEvent',
  'tryDequeue',
  'drainQueue',
  'dequeueBatch',
  'readState',
  'update',
  'token',
  'finishUpdates',
]);

/** Methods whose work goes on whether or not the code waits. `send` is that of a channel. */
export const DETACHED_METHODS: ReadonlySet<string> = new Set([
  'startOrchestration',
  'start',
  'raiseEvent',
  'enqueueEvent',
  'spawn',
  'continueAsNew',
  'send',
]);

/** Methods that take futures as their arguments. */
export const COMBINATORS: ReadonlySet<string> = new Set([
  'all',
  'allSettled',
  'any',
  'race',
  'raceSettled',
  'select',
  'selectSettled',
  'withTimeout',
]);

/** Methods that take functions, or values that stay in memory. */
export const IN_MEMORY: ReadonlySet<string> = new Set([
  'spawn',
  'uncancellable',
  'lock',
  'map',
  'saga',
  'onUpdate',
  'onQuery',
]);

/** Members of a future that code may use without waiting. */
export const FUTURE_MEMBERS: ReadonlySet<string> = new Set(['cancel', 'interrupt', 'resolve', 'reject', 'isSettled']);

/** The module of the free functions. */
export const FREE_MODULE = 'perdure/orchestration';

/** Functions that take the function of an orchestration as their second argument. */
export const ORCHESTRATION_DEFINERS: ReadonlySet<string> = new Set(['defineOrchestration', 'registerOrchestration']);

/** Functions that take an object with functions of an orchestration as their second argument. */
export const ENTITY_DEFINERS: ReadonlySet<string> = new Set(['defineEntity']);

/** The keys of that object whose functions run in the orchestration. Reads run in the process of the caller. */
export const ENTITY_CODE: ReadonlySet<string> = new Set(['initial', 'handlers']);

/** Types of contexts of orchestrations. */
export const CONTEXT_TYPES: ReadonlySet<string> = new Set(['OrchestrationContext', 'EntityContext']);

/** Functions that take the function of an activity as their second argument. */
export const ACTIVITY_DEFINERS: ReadonlySet<string> = new Set(['defineActivity', 'registerActivity']);

/** Names of parameters that are taken for contexts in JavaScript: `settings: { perdure: { contextNames: […] } }`. */
export const CONTEXT_NAMES: readonly string[] = ['ctx', 'context'];
