// The methods inside orchestrations and activities, called with values that no argument is made for. Each call throws a
// TypeError or an error of Perdure that says what is wrong and does not show the value. The next program runs as
// before.

import {
  type ActivityContext,
  activityContext,
  defineActivity,
  defineEntity,
  defineOrchestration,
  type OrchestrationContext,
  type OrchestrationGenerator,
} from 'perdure';
import * as free from 'perdure/orchestration';
import { beforeEach, describe, expect, it } from 'vitest';
import { watchPrototypes } from '../../support/prototypes.ts';
import { ANY_STORE } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';
import { callablesOf, method, methodsOf, optionsOf } from '../../support/surface.ts';
import { badError, CANARY, WRONG_VALUES } from '../../support/wrong-values.ts';

const noop = defineActivity('noop', () => {});
const child = defineOrchestration('child', function* () {});
const counter = defineEntity('counter', { initial: () => 0, handlers: { *add() {} } });

/** Valid arguments of a method of the context, and the position of its options. */
interface Inside {
  readonly args: (ctx: OrchestrationContext) => readonly unknown[];
  readonly options?: number;
  readonly nested?: readonly string[];
}

function* block(): OrchestrationGenerator<void> {}

const later = (ctx: OrchestrationContext): unknown => ctx.scheduleTimer('1h');

const METHODS: Record<string, Inside> = {
  scheduleActivity: { args: () => ['noop', 1, {}], options: 2, nested: ['retry'] },
  call: { args: () => [noop, 1, {}], options: 2 },
  run: { args: () => ['inline', () => 1, {}], options: 2 },
  scheduleSubOrchestration: { args: (ctx) => ['child', 1, { id: ctx.randomUUID() }], options: 2 },
  callOrchestration: { args: (ctx) => [child, 1, { id: ctx.randomUUID() }], options: 2 },
  startOrchestration: { args: (ctx) => ['child', ctx.randomUUID(), 1, {}], options: 3 },
  start: { args: (ctx) => [child, 1, { id: ctx.randomUUID() }], options: 2 },
  raiseEvent: { args: () => ['nobody', 'go', { secret: CANARY }, { start: { name: 'order' } }] },
  enqueueEvent: { args: () => ['nobody', 'jobs', { secret: CANARY }, { start: { name: 'order' } }] },
  onUpdate: { args: () => ['add', block, {}], options: 2 },
  onQuery: { args: () => ['count', () => 1] },
  finishUpdates: { args: () => [] },
  update: { args: () => ['nobody', 'add', { secret: CANARY }] },
  entity: { args: () => [counter, 'nobody'] },
  token: { args: () => [{}], options: 0 },
  lock: { args: () => [['printer', counter.at('nobody')], block] },
  scheduleTimer: { args: () => ['1h'] },
  sleep: { args: () => ['1h'] },
  waitForEvent: { args: () => ['go', undefined] },
  dequeueEvent: { args: () => ['jobs'] },
  pollEvent: { args: () => ['go', undefined] },
  tryDequeue: { args: () => ['jobs'] },
  drainQueue: { args: () => ['jobs', 1] },
  dequeueBatch: { args: () => ['jobs', 1, '1h'] },
  map: { args: () => [[1], block, {}], options: 2 },
  saga: { args: () => [block] },
  all: { args: (ctx) => [[later(ctx)], {}], options: 1 },
  allSettled: { args: (ctx) => [[later(ctx)]] },
  any: { args: (ctx) => [[later(ctx)], {}], options: 1 },
  race: { args: (ctx) => [[later(ctx)], {}], options: 1 },
  select: { args: (ctx) => [{ a: later(ctx) }, {}], options: 1 },
  raceSettled: { args: (ctx) => [[later(ctx)], {}], options: 1 },
  selectSettled: { args: (ctx) => [{ a: later(ctx) }, {}], options: 1 },
  deferred: { args: () => [] },
  spawn: { args: () => [block] },
  channel: { args: () => [1] },
  withTimeout: { args: (ctx) => ['1h', later(ctx)] },
  uncancellable: { args: () => [block] },
  continueAsNew: { args: () => [1, {}], options: 1 },
  readState: { args: () => ['nobody', 'progress'] },
  stream: { args: () => ['s', {}], options: 1 },
  setCustomStatus: { args: () => [1] },
  resetCustomStatus: { args: () => [] },
  getCustomStatus: { args: () => [] },
  traceDebug: { args: () => ['line', {}] },
  traceInfo: { args: () => ['line', {}] },
  traceWarn: { args: () => ['line', {}] },
  traceError: { args: () => ['line', {}] },
  now: { args: () => [] },
  random: { args: () => [] },
  randomUUID: { args: () => [] },
  patched: { args: () => ['p'] },
};

const ACTIVITY_METHODS: Record<string, readonly unknown[]> = {
  traceDebug: ['line', {}],
  traceInfo: ['line', {}],
  traceWarn: ['line', {}],
  traceError: ['line', {}],
};

const CHANNEL_METHODS: Record<string, readonly unknown[]> = { forEach: [block], send: [1], receive: [], close: [] };

/** The options by method. They are determined once, before the tests, since an orchestration cannot wait for that. */
const options = new Map<string, readonly (readonly [name: string, within: string | null])[]>();

/** Makes every odd call of one method. Returns the faults of the errors. */
function problemsOf(
  call: (...args: unknown[]) => unknown,
  argsOf: () => readonly unknown[],
  place?: number,
  names: readonly (readonly [string, string | null])[] = [],
): string[] {
  const problems: string[] = [];
  const attempt = (what: string, at: number, value: unknown): void => {
    const args = argsOf().map((arg, n) => (n === at ? value : arg));
    try {
      call(...args);
    } catch (error) {
      const problem = badError(error);
      if (problem !== undefined) problems.push(`${what}: ${problem}`);
    }
  };
  for (const [what, make] of WRONG_VALUES) {
    for (let at = 0; at < argsOf().length; at += 1) attempt(`argument ${at}: ${what}`, at, make());
    for (const [name, within] of place === undefined ? [] : names) {
      attempt(
        `option ${within ?? ''} ${name}: ${what}`,
        place as number,
        within === null ? { [name]: make() } : { [within]: { [name]: make() } },
      );
    }
  }
  return problems;
}

describe('in an orchestration', () => {
  const store = useStore(ANY_STORE);
  const untouched = watchPrototypes();
  let found: string[] | undefined;

  beforeEach(async () => {
    found = undefined;
    await store.start((runtime) =>
      runtime.register(noop, child).registerOrchestration('inside', function* (ctx, name: string) {
        // This execution follows a valid call of continueAsNew.
        if (ctx.executionId > 1) return;
        const { args, options: place } = METHODS[name] as Inside;
        found = [method(ctx, name), method(free, name)].flatMap((call) =>
          problemsOf(call, () => args(ctx), place, options.get(name)),
        );
      }),
    );
  });

  async function run(input: string): Promise<void> {
    const id = store.id();
    await store.client.startOrchestration(id, 'inside', input);
    // An odd function that is taken for a block fails its fiber, and an unobserved failure of a fiber fails the
    // orchestration.
    await store.client.waitForOrchestration(id, SOON);
  }

  it('the methods of a context are all here', async () => {
    let names: string[] = [];
    await store.start((runtime) =>
      runtime.registerOrchestration('names', function* (ctx) {
        names = methodsOf(ctx);
        for (const [name, { args, options: place, nested = [] }] of Object.entries(METHODS)) {
          if (place === undefined) continue;
          const of =
            (within: string | null) =>
            (given: unknown): unknown =>
              method(
                ctx,
                name,
              )(...args(ctx).map((arg, n) => (n === place ? (within === null ? given : { [within]: given }) : arg)));
          options.set(name, [
            ...optionsOf(of(null)).map((option) => [option, null] as const),
            ...nested.flatMap((within) => optionsOf(of(within)).map((option) => [option, within] as const)),
          ]);
        }
      }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'names');
    expect((await store.client.waitForOrchestration(id, SOON)).error).toBeUndefined();
    expect(names.sort()).toEqual(Object.keys(METHODS).sort());
    expect(callablesOf(free).sort()).toEqual([...Object.keys(METHODS), 'currentContext', 'contextLocal'].sort());
  });

  it.each(Object.keys(METHODS))('%s', async (name) => {
    await run(name);
    expect(found).toEqual([]);
    untouched();
    await run('now');
    expect(found).toEqual([]);
  });

  it('a channel, a future and the context of an activity', async () => {
    const names: Record<string, string[]> = {};
    const problems: string[] = [];
    await store.start((runtime) =>
      runtime
        .registerActivity('within', (ctx: ActivityContext) => {
          names.activity = methodsOf(ctx);
          for (const context of [ctx, activityContext()]) {
            for (const [name, args] of Object.entries(ACTIVITY_METHODS))
              problems.push(...problemsOf(method(context, name), () => args));
            problems.push(
              ...problemsOf(
                (details) => context.heartbeat(details),
                () => [1],
              ),
            );
          }
        })
        .registerOrchestration('within', function* (ctx) {
          const channel = ctx.channel();
          names.channel = Object.keys(CHANNEL_METHODS).filter(
            (name) => typeof (channel as unknown as Record<string, unknown>)[name] === 'function',
          );
          for (const [name, args] of Object.entries(CHANNEL_METHODS))
            problems.push(...problemsOf(method(channel, name), () => args));
          problems.push(
            ...problemsOf(
              (reason) => ctx.scheduleTimer('1h').cancel(reason as string),
              () => ['reason'],
            ),
          );
          problems.push(
            ...problemsOf(
              (reason) => ctx.spawn(block).cancel(reason as string),
              () => ['reason'],
            ),
          );
          yield ctx.scheduleActivity('within');
        }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'within');
    expect((await store.client.waitForOrchestration(id, '1m')).error).toBeUndefined();
    expect(problems).toEqual([]);
    expect(names.activity?.sort()).toEqual(Object.keys(ACTIVITY_METHODS).sort());
    expect(names.channel).toEqual(Object.keys(CHANNEL_METHODS));
    untouched();
    // Each method is called with hundreds of values.
  }, 120_000);
});

it.each(Object.keys(free).filter((name) => !['CLOSED', 'contextLocal', 'state'].includes(name)))(
  '%s outside of an orchestration',
  (name) => {
    expect(() => method(free, name)()).toThrow(expect.objectContaining({ name: 'DeterminismError' }));
  },
);
