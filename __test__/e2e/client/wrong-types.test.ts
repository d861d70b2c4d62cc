// Everything that the package exports, called with values that no argument is made for. Each call throws, in time, a
// TypeError or an error of Perdure that says what is wrong and does not show the value. Afterwards everything works as
// before.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as perdure from 'perdure';
import {
  Client,
  defineActivity,
  defineEntity,
  defineOrchestration,
  type OrchestrationGenerator,
  PostgresProvider,
  type Provider,
  Runtime,
  SqliteProvider,
} from 'perdure';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { watchPrototypes } from '../../support/prototypes.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';
import { callablesOf, method, methodsOf, optionsIn, UNKNOWN } from '../../support/surface.ts';
import { Boom, badError, CANARY, WRONG_VALUES } from '../../support/wrong-values.ts';

/** A call that takes this long hangs: no call here has to wait. */
const WITHIN_MS = 5_000;

interface Row {
  /** Returns valid arguments, made anew each time. */
  readonly args: () => readonly unknown[];
  readonly call: (...args: any[]) => unknown;
  /** Position of the options, if there are any, and the names of those options that have options of their own. */
  readonly options?: number;
  readonly nested?: readonly string[];
  /** An option that is called at once. The error that it throws is passed on unchanged. */
  readonly called?: string;
  /** True for an error class, which passes on JavaScript's own errors about an invalid message or invalid options. */
  readonly isErrorClass?: boolean;
}

/** Uses the result of a call as a user would: awaits promises, closes providers, reads lists. */
async function use(result: unknown): Promise<void> {
  const value = await result;
  if (typeof value !== 'object' || value === null) return;
  if (value instanceof SqliteProvider || value instanceof PostgresProvider) await value.close();
  else if (Symbol.asyncIterator in value) for await (const _ of value as AsyncIterable<unknown>) break;
}

async function problemOf(row: Row, args: readonly unknown[]): Promise<string | undefined> {
  const begun = performance.now();
  try {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error('it hangs')), WITHIN_MS);
    });
    await Promise.race([(async () => use(row.call(...args)))(), late]).finally(() => clearTimeout(timer));
  } catch (error) {
    if (row.isErrorClass === true && (error instanceof TypeError || error instanceof Boom)) return undefined;
    const problem = badError(error);
    if (problem !== undefined) return problem;
  }
  const took = performance.now() - begun;
  return took > WITHIN_MS ? `it took ${Math.round(took)} ms` : undefined;
}

/** Yields all calls of a row: each argument odd, then each option, then each option of an option. */
async function* callsOf(row: Row): AsyncGenerator<readonly [what: string, args: unknown[]]> {
  const count = row.args().length;
  const with_ = (at: number, value: unknown): unknown[] => row.args().map((arg, n) => (n === at ? value : arg));
  for (let at = 0; at < count; at += 1)
    for (const [what, make] of WRONG_VALUES) yield [`argument ${at}: ${what}`, with_(at, make())];
  const place = row.options;
  if (place === undefined) return;
  const base = row.args()[place] as object;
  const optionsBy = async (given: (unknown: object) => unknown): Promise<string[]> =>
    optionsIn(await rejection((async () => given(UNKNOWN))()));
  const names = await optionsBy((unknown) => row.call(...with_(place, unknown)));
  for (const name of names) {
    const odd =
      name === row.called
        ? WRONG_VALUES.filter(([what]) => what !== 'a function behind a proxy that throws')
        : WRONG_VALUES;
    for (const [what, make] of odd) yield [`option ${name}: ${what}`, with_(place, { ...base, [name]: make() })];
  }
  for (const name of row.nested ?? []) {
    for (const inner of await optionsBy((unknown) => row.call(...with_(place, { ...base, [name]: unknown })))) {
      for (const [what, make] of WRONG_VALUES)
        yield [`option ${name}.${inner}: ${what}`, with_(place, { ...base, [name]: { [inner]: make() } })];
    }
  }
}

async function problemsOf(row: Row): Promise<string[]> {
  const problems: string[] = [];
  for await (const [what, args] of callsOf(row)) {
    const problem = await problemOf(row, args);
    if (problem !== undefined) problems.push(`${what}: ${problem}`);
  }
  return problems;
}

const noop = (): void => {};
function* nothing(): OrchestrationGenerator<void> {}
const activity = defineActivity('noop', noop);
const orchestration = defineOrchestration('nothing', nothing);
const counter = defineEntity('counter', { initial: () => 0, handlers: { *add() {} } });
const LIMITS = ['limits'];

/** Functions that need no store. */
function functions(): Record<string, Row> {
  let names = 0;
  const name = (): string => `name ${(names += 1)}`;
  const folder = mkdtempSync(join(tmpdir(), 'perdure-test-'));
  const before = process.cwd();
  afterAll(() => {
    process.chdir(before);
    rmSync(folder, { recursive: true });
  });
  // A text that is taken for a path creates a file.
  beforeAll(() => process.chdir(folder));
  const backUp = async (to: string, options: object): Promise<void> => {
    await using provider = await SqliteProvider.open(join(folder, name()));
    await provider.backup(to, options);
  };
  const dead = `postgres://app:${CANARY}@127.0.0.1:1/shop`;
  return {
    activityContext: { args: () => [], call: () => perdure.activityContext() },
    contextLocal: { args: () => ['initial'], call: (initial) => perdure.contextLocal(initial) },
    defineActivity: {
      args: () => [name(), noop, {}],
      call: (a, b, c) => defineActivity(a, b, c),
      options: 2,
      nested: ['retry'],
    },
    defineOrchestration: {
      args: () => [name(), nothing, {}],
      call: (a, b, c) => defineOrchestration(a, b, c),
      options: 2,
    },
    defineEvent: { args: () => [name(), undefined], call: (a, b) => perdure.defineEvent(a, b) },
    defineEntity: {
      args: () => [name(), { initial: () => 0, handlers: { *add() {} }, reads: { sum: () => 0 } }],
      call: (a, b) => perdure.defineEntity(a, b),
      options: 1,
    },
    defineLock: { args: () => [name(), {}], call: (a, b) => perdure.defineLock(a, b), options: 1 },
    defineQuery: { args: () => [name(), {}], call: (a, b) => perdure.defineQuery(a, b), options: 1 },
    defineSchedule: {
      args: () => [name(), { every: '1h', start: { name: 'order' } }],
      call: (a, b) => perdure.defineSchedule(a, b),
      options: 1,
    },
    defineUpdate: { args: () => [name(), {}], call: (a, b) => perdure.defineUpdate(a, b), options: 1 },
    defineQueue: { args: () => [name(), undefined], call: (a, b) => perdure.defineQueue(a, b) },
    'SqliteProvider.open()': {
      args: () => [join(folder, name()), {}],
      call: (a, b) => SqliteProvider.open(a, b),
      options: 1,
    },
    'SqliteProvider.inMemory()': { args: () => [{}], call: (a) => SqliteProvider.inMemory(a), options: 0 },
    'SqliteProvider.backup': { args: () => [join(folder, name()), {}], call: backUp, options: 1 },
    'new SqliteProvider': { args: () => [1, 2], call: (...args) => Reflect.construct(SqliteProvider, args) },
    'PostgresProvider.connect()': {
      args: () => [dead, {}],
      call: (a, b) => PostgresProvider.connect(a, b),
      options: 1,
      nested: ['tls'],
      called: 'password',
    },
    'new PostgresProvider': { args: () => [1, 2], call: (...args) => Reflect.construct(PostgresProvider, args) },
    ...errorClasses(),
  };
}

function errorClasses(): Record<string, Row> {
  const classes = Object.entries(perdure).filter(
    ([, value]) => typeof value === 'function' && value.prototype instanceof Error,
  );
  return Object.fromEntries(
    classes.map(([name, type]) => {
      const args = (): unknown[] =>
        name === 'PerdureError'
          ? ['message', 'CODE', {}]
          : name === 'RetryAfterError'
            ? [5, 'message', {}]
            : ['message', {}];
      return [
        `new ${name}`,
        { args, call: (...given: unknown[]) => Reflect.construct(type as new () => Error, given), isErrorClass: true },
      ];
    }),
  );
}

/** Methods that work on a store, with an instance that has ended. */
function methods(provider: Provider, client: Client, ended: string, fresh: () => string): Record<string, Row> {
  const of = (name: string, ...args: unknown[]): Row => ({ args: () => args, call: method(client, name) });
  return {
    'new Client': { args: () => [provider, {}], call: (a, b) => new Client(a, b), options: 1, nested: LIMITS },
    'Client.startOrchestration': {
      ...of('startOrchestration'),
      args: () => [fresh(), 'nobody registers this', { secret: CANARY }, {}],
      options: 3,
    },
    'Client.start': { ...of('start'), args: () => [orchestration, { secret: CANARY }, { id: fresh() }], options: 2 },
    'Client.startMany': of('startMany', [{ name: 'nobody registers this', input: { secret: CANARY } }]),
    'Client.handle': of('handle', ended),
    'Client.getStatus': { ...of('getStatus', ended, {}), options: 1 },
    'Client.waitForOrchestration': of('waitForOrchestration', ended, '1s'),
    'Client.waitForStatusChange': of('waitForStatusChange', ended, 0, '1s', '1s'),
    'Client.statusChanges': { ...of('statusChanges', ended, {}), options: 1 },
    'Client.raiseEvent': of('raiseEvent', ended, 'go', { secret: CANARY }, { start: { name: 'order' } }),
    'Client.enqueueEvent': of('enqueueEvent', ended, 'jobs', { secret: CANARY }, { start: { name: 'order' } }),
    'Client.update': { ...of('update', ended, 'add', { secret: CANARY }, {}), options: 3 },
    'Client.updateWithStart': {
      ...of('updateWithStart', ended, 'add', { secret: CANARY }, { start: { name: 'order' } }),
      options: 3,
    },
    'Client.entity': of('entity', counter, 'key'),
    'Client.resolveToken': { ...of('resolveToken', 'x'.repeat(43), { secret: CANARY }, {}), options: 2 },
    'Client.rejectToken': { ...of('rejectToken', 'x'.repeat(43), 'no', {}), options: 2 },
    'Client.listTokens': { ...of('listTokens', {}), options: 0 },
    'Client.query': { ...of('query', ended, 'count', { secret: CANARY }, {}), options: 3 },
    'Client.cancelInstance': of('cancelInstance', ended, 'reason'),
    'Client.within': of('within', { query: () => {} }),
    'Client.terminateInstance': of('terminateInstance', ended, 'reason'),
    'Client.suspend': of('suspend', ended, 'reason'),
    'Client.resume': of('resume', ended),
    'Client.getHistory': of('getHistory', ended, 1),
    'Client.historyEvents': of('historyEvents', ended, 1),
    'Client.exportHistory': of('exportHistory', ended, 1),
    'Client.historyPage': { ...of('historyPage', ended, {}), options: 1 },
    'Client.executions': { ...of('executions', ended, {}), options: 1 },
    'Client.tree': { ...of('tree', ended, {}), options: 1 },
    'Client.describe': of('describe', ended),
    'Client.facts': of('facts', ended),
    'Client.takeovers': of('takeovers', ended),
    'Client.logs': { ...of('logs', ended, {}), options: 1 },
    'Client.getState': of('getState', ended, 'progress'),
    'Client.watchState': { ...of('watchState', ended, 'progress', {}), options: 2 },
    eventStream: {
      args: () => [client.readStream(ended, 's'), new Headers(), {}],
      options: 2,
      call: (a, b, c) => void perdure.eventStream(a as never, b as never, c as never),
    },
    'Client.readStream': { ...of('readStream', ended, 's', {}), options: 2 },
    'Client.listStreams': of('listStreams', ended),
    'Client.describeStore': of('describeStore'),
    'Client.workers': of('workers'),
    'Client.checkStore': { ...of('checkStore', {}), options: 0 },
    'Client.recode': { ...of('recode', {}), options: 0 },
    'Client.overdue': of('overdue'),
    'Client.listInstances': { ...of('listInstances', {}), options: 0 },
    'Client.deleteInstance': { ...of('deleteInstance', 'absent', {}), options: 1 },
    'Client.pruneExecutions': { ...of('pruneExecutions', { name: 'nobody registers this', keep: 1 }), options: 0 },
    'Client.stats': of('stats'),
    'Client.storeId': of('storeId'),
    ...methodsOfRuntimes(provider),
    // The last call: {} deletes every instance that has ended.
    'Client.prune': { ...of('prune', { name: 'nobody registers this' }), options: 0 },
  };
}

function methodsOfRuntimes(provider: Provider): Record<string, Row> {
  const runtime = (): Runtime => new Runtime(provider, { logLevel: 'silent' });
  const startAndStop = async (options: object): Promise<void> => {
    await using started = runtime();
    await started.start(options);
  };
  return {
    'new Runtime': {
      args: () => [provider, { logLevel: 'silent' }],
      call: (a, b) => void new Runtime(a, b),
      options: 1,
      nested: LIMITS,
    },
    'Runtime.registerActivity': {
      args: () => ['a', noop, {}],
      call: (...args) => void (runtime().registerActivity as (...all: unknown[]) => unknown)(...args),
      options: 2,
      nested: ['retry'],
    },
    'Runtime.registerOrchestration': {
      args: () => ['o', nothing, {}],
      call: (...args) => void (runtime().registerOrchestration as (...all: unknown[]) => unknown)(...args),
      options: 2,
    },
    'Runtime.register': { args: () => [activity, orchestration], call: (...args) => void runtime().register(...args) },
    'Runtime.start': { args: () => [{}], call: startAndStop, options: 0 },
    'Runtime.shutdown': { args: () => [5], call: (a) => runtime().shutdown(a) },
    'Runtime.metrics': { args: () => [], call: () => runtime().metrics() },
    'Runtime.on': { args: () => ['error', noop], call: (a, b) => runtime().on(a, b) },
    'Runtime.[asyncDispose]': { args: () => [], call: () => runtime()[Symbol.asyncDispose]() },
  };
}

/** Methods of objects that the package returns and does not export. */
function handles(client: Client, ended: string): Record<string, Row> {
  const handle = client.handle(ended);
  const of = (name: string, ...args: unknown[]): Row => ({ args: () => args, call: method(handle, name) });
  return {
    result: { ...of('result', { timeout: '1s' }), options: 0 },
    status: { ...of('status', {}), options: 0 },
    waitForStatusChange: of('waitForStatusChange', 0, '1s', '1s'),
    statusChanges: { ...of('statusChanges', {}), options: 0 },
    raiseEvent: of('raiseEvent', 'go', { secret: CANARY }, { start: { name: 'order' } }),
    enqueueEvent: of('enqueueEvent', 'jobs', { secret: CANARY }, { start: { name: 'order' } }),
    update: { ...of('update', 'add', { secret: CANARY }, {}), options: 2 },
    query: { ...of('query', 'count', { secret: CANARY }, {}), options: 2 },
    readStream: { ...of('readStream', 'lines', {}), options: 1 },
    cancel: of('cancel', 'reason'),
    terminate: of('terminate', 'reason'),
    suspend: of('suspend', 'reason'),
    resume: of('resume'),
  };
}

function queues({ queues }: Client): Record<string, Row> {
  const of = (name: string, ...args: unknown[]): Row => ({ args: () => args, call: method(queues, name) });
  return {
    set: { ...of('set', 'odd', {}), options: 1, nested: ['rate', 'perKey'] },
    get: of('get', 'odd'),
    list: of('list'),
    pause: of('pause', 'odd'),
    resume: of('resume', 'odd'),
    delete: of('delete', 'odd'),
  };
}

/** Methods of an open provider that take no arguments. */
const WITHOUT_ARGUMENTS = [
  'SqliteProvider.close',
  'SqliteProvider.[asyncDispose]',
  'PostgresProvider.close',
  'PostgresProvider.[asyncDispose]',
];

describe('exports', () => {
  const rows = functions();
  const untouched = watchPrototypes();

  it('is all here', () => {
    const known = [
      ...Object.keys(rows),
      ...Object.keys(methods({} as Provider, {} as Client, '', () => '')),
      ...WITHOUT_ARGUMENTS,
    ];
    expect(callablesOf(perdure).sort()).toEqual(known.sort());
  });

  it.each(Object.keys(rows))('%s', async (name) => {
    expect(await problemsOf(rows[name] as Row)).toEqual([]);
    untouched();
  });
});

describe.each(STORES.filter(({ name }) => name !== 'SQLite in memory'))('on $name', (kind) => {
  const store = useStore(kind);
  const untouched = watchPrototypes();
  const dummy = { handle: () => ({}) } as unknown as Client;

  /** Runs an instance to its end. */
  async function ended(): Promise<string> {
    await store.start((runtime) => runtime.register(orchestration));
    // A call with an odd value that is a valid id has started an instance, which waits for a runtime with its
    // orchestration.
    await store.client.terminateInstance('__proto__').catch(noop);
    const id = store.id();
    await store.client.start(orchestration, undefined, { id });
    await store.client.waitForOrchestration(id, SOON);
    return id;
  }

  it.each(Object.keys(methods({} as Provider, dummy, '', () => '')))('%s', async (name) => {
    const id = await ended();
    const row = methods(store.provider, store.client, id, () => store.id())[name] as Row;
    expect(await problemsOf(row)).toEqual([]);
    untouched();
    // A normal program still runs.
    await ended();
  });

  it('a handle', async () => {
    const id = await ended();
    const rows = handles(store.client, id);
    expect(methodsOf(store.client.handle(id)).sort()).toEqual(Object.keys(rows).sort());
    for (const [name, row] of Object.entries(rows)) expect(await problemsOf(row), name).toEqual([]);
    untouched();
  });

  it('queues', async () => {
    const rows = queues(store.client);
    expect(methodsOf(store.client.queues).sort()).toEqual(Object.keys(rows).sort());
    for (const [name, row] of Object.entries(rows)) expect(await problemsOf(row), name).toEqual([]);
    untouched();
  });
});
