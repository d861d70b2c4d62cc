// An orchestration whose code is edited under its instances.

import type { Runtime } from 'perdure';

import { SOON, type TestStore } from './store.ts';

/** Registers `order`: it calls an activity, and then waits for the event `go`. */
const calling =
  (activity: string) =>
  (runtime: Runtime): void => {
    runtime
      .registerActivity(activity, () => activity)
      .registerOrchestration('order', function* (ctx) {
        yield ctx.scheduleActivity(activity);
        ctx.setCustomStatus('called');
        return yield ctx.waitForEvent('go');
      });
  };

/** Registers `order` with code that no longer fits the instances of {@link suspendByEdit}. */
export const edited = calling('b');

/** Starts an instance that edited code suspends. Returns its id and the runtime that runs the edited code. */
export async function suspendByEdit(store: TestStore): Promise<{ id: string; runtime: Runtime }> {
  const id = store.id('suspended');
  const first = await store.start(calling('a'));
  await store.client.startOrchestration(id, 'order');
  await store.client.waitForStatusChange(id, 0, undefined, SOON);
  await first.shutdown();
  const runtime = await store.start(edited);
  await store.client.raiseEvent(id, 'go', 'gone');
  await store.suspended(id);
  // The runtime has reported the suspension.
  store.errors.length = 0;
  return { id, runtime };
}
