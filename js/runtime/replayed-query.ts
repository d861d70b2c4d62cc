// Queries of instances that are not in memory: the code is taken through the stored history, and asked where that ends.

import { recordedOptions } from '../activity/activity-options.ts';
import { ReplayEngine } from '../binding/replay-engine.ts';
import type { QueryAnswer } from '../driver/queries.ts';
import { acquireGuard, releaseGuard } from '../orchestration/determinism.ts';
import type { StoredExecution } from '../store/query-host.ts';
import { fromNative } from '../values/error-data.ts';
import { StoredTexts } from '../values/stored-text.ts';
import type { Host } from './host.ts';
import { Instance } from './instance.ts';

/**
 * Answers a query of an execution. Nothing is written or sent, no activity runs and no line is logged.
 *
 * @returns `undefined` when the code of the execution is not registered
 * @throws NondeterminismError, LimitError, PayloadError when the code does not fit the history
 */
export function answerByReplay(
  { instanceId, executionId, name, version, events }: StoredExecution,
  host: Host,
  query: string,
  input: unknown,
): QueryAnswer | undefined {
  const orchestration = host.orchestration(name, version);
  if (orchestration === undefined) return undefined;
  const { limits, types, sourceStacks, isGuarded } = host;
  const engine = ReplayEngine.open(instanceId, executionId, events, new StoredTexts().withTypes(types));
  const instance = new Instance(engine, engine.describe(), orchestration, {
    // The options of an activity are taken from history.
    recordedOptions: (_, called, defined) => recordedOptions(defined, called),
    sourceStacks,
    limits,
    types,
  });
  if (isGuarded) acquireGuard();
  try {
    instance.turn();
    if (engine.refusal !== null) throw fromNative(engine.refusal);
    return instance.query(query, input);
  } finally {
    instance.release();
    if (isGuarded) releaseGuard();
  }
}
