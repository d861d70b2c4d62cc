// A table of cases, each run in every way in which an instance can continue: on each store, kept and evicted, replayed,
// and with a crash after each event.

import type { ActivityDefinition, OrchestrationDefinition, Runtime } from 'perdure';
import { crashEverywhere, replay, type TestRuntime } from 'perdure/testing';
import { describe, expect, it } from 'vitest';

import { historyViolations, scheduled } from './history.ts';
import { STORES } from './providers.ts';
import { SOON, useStore } from './store.ts';

export interface Case {
  /** Takes no input and completes. */
  readonly orchestration: OrchestrationDefinition;
  readonly output: unknown;
  /** Inputs of the scheduled activities, in order. */
  readonly acts: readonly unknown[];
}

/** Defines the tests of each case in each way. Every activity that a case schedules is `activity`. */
export function runsEveryWay(activity: ActivityDefinition, cases: readonly Case[]): void {
  const orchestrations = cases.map(({ orchestration }) => orchestration);
  const named = cases.map((one) => [one.orchestration.name, one] as const);

  describe.each(STORES)('on $name', (kind) => {
    const store = useStore(kind);

    describe.each([
      ['kept', {}],
      ['replayed for every turn', { cachedInstancesMax: 0 }],
    ])('instances that are %s', (_, options) => {
      it.each(named)('%s', async (name, { output, acts }) => {
        const { client } = store;
        await store.start((runtime: Runtime) => runtime.register(activity, ...orchestrations), options);
        const id = store.id();
        await client.startOrchestration(id, name);
        expect(await client.waitForOrchestration(id, SOON)).toMatchObject({ status: 'Completed', output });
        const history = await client.getHistory(id);
        expect(historyViolations(history, 'Completed')).toEqual([]);
        expect(scheduled(history)).toEqual(acts);
        expect(replay(await client.exportHistory(id), orchestrations).executions).toMatchObject([
          { outcome: 'completed' },
        ]);
      });
    });
  });

  describe('with a crash after each event', () => {
    it.each(named)('%s', async (name, { output, acts }) => {
      const { result } = await crashEverywhere(async (test: TestRuntime) => {
        test.register(activity, ...orchestrations);
        await test.client.startOrchestration('i', name);
        const ended = await test.client.waitForOrchestration('i');
        const history = await test.client.getHistory('i');
        return { output: ended.output, acts: scheduled(history) };
      });
      expect(result).toEqual({ output, acts });
    });
  });
}
