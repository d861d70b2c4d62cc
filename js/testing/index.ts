/**
 * Tools for tests of orchestrations: `perdure/testing`.
 *
 * A test runtime runs orchestrations for real, on a store in memory and with a clock of its own. A replay takes new
 * code through the history of an instance that old code has run, and reports if the code fits. Make this check before a
 * deployment, with histories from `client.exportHistory`.
 */

export { type Crashed, crashEverywhere } from './crash-everywhere.ts';
export { HistoryError } from './exported.ts';
export type { PendingWork, ReplayedExecution, ReplayOutcome } from './replay.ts';
export {
  type ReplayCode,
  type ReplayDefinitions,
  type ReplayedFile,
  type ReplayedInstance,
  type ReplayOptions,
  type ReplayStepOptions,
  replay,
  replayFiles,
} from './replays.ts';
export { StuckError } from './stuck-error.ts';
export type { ActivityCall, Hang } from './test-activities.ts';
export { type ActivityName, TestRuntime, type TestRuntimeOptions, type TestWaitOptions } from './test-runtime.ts';
