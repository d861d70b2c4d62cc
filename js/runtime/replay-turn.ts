// The replay of code by the usual driver, with a history in place of a store.

import { recordedOptions } from '../activity/activity-options.ts';
import { acquireGuard, releaseGuard } from '../orchestration/determinism.ts';
import type { OrchestrationHost } from '../orchestration/orchestration-host.ts';
import type { Instance } from './instance.ts';

/** Returns the services of a runtime that the code of a replay needs. */
export function replayHost({
  sourceStacks,
  limits,
  types,
}: Omit<OrchestrationHost, 'recordedOptions'>): OrchestrationHost {
  return {
    // The registered options of an activity are not known here, and need not be: its options are taken from history.
    recordedOptions: (call, called, defined) => recordedOptions(defined, called, call),
    sourceStacks,
    limits,
    types,
  };
}

/** Takes code as far as its history goes. */
export function replayTurn(instance: Instance, isGuarded: boolean): void {
  if (isGuarded) acquireGuard();
  try {
    instance.turn();
  } finally {
    if (isGuarded) releaseGuard();
  }
}
