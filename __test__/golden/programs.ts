// The programs whose histories are kept for ever, in ../fixtures/histories: a folder for each release that wrote some.
//
// Programs are never changed, only added. A history is replayed with the current code, so a change of a program that
// has one is a change that instances of users would not survive. The same holds for the names of instances and for the
// work that they are expected to wait for. If an operation is new, or has a new effect, another program is added, and
// `npm run golden` records it.
//
// Error messages are recorded, too, since the programs pass them on as users' code does: rewording an error of Perdure
// changes the result of such code in a replay.
//
// A program must do the same in each run, on each store: operations that could come in two orders are made to wait for
// each other.

import { randomUUID as cryptoUUID } from 'node:crypto';
import {
  type ActivityOptions,
  CLOSED,
  defineActivity,
  defineOrchestration,
  type Future,
  NonRetryableError,
  type OrchestrationContext,
  RetryAfterError,
  type StandardSchema,
} from 'perdure';
import * as free from 'perdure/orchestration';

import type { Expected, Program, Stage } from './stage.ts';

/** A part of an orchestration. */
type Steps<T> = Generator<any, T, any>;

const echo = defineActivity('echo', async (_, value: unknown) => value);
const nothing = defineActivity('nothing', async () => undefined);
/** Runs until its signal is aborted. */
const hang = defineActivity(
  'hang',
  (ctx) => new Promise((resolve) => ctx.signal.addEventListener('abort', () => resolve('aborted'), { once: true })),
);

const ONCE: ActivityOptions = { retry: { maxAttempts: 1 } };

/** Returns the text of an error and of its causes. */
function told(error: unknown): string {
  if (!(error instanceof Error)) return `thrown: ${JSON.stringify(error)}`;
  const { name, message, cause } = error;
  const code = (error as { code?: unknown }).code;
  return `${name}${code === undefined ? '' : ` ${String(code)}`}: ${message}${cause === undefined ? '' : ` <- ${told(cause)}`}`;
}

/** Returns the value of a future, or the text of its error. */
function* outcome(future: Future<unknown>): Steps<unknown> {
  try {
    return yield future;
  } catch (error) {
    return told(error);
  }
}

const ended: Expected = { outcomes: ['completed'] };

/** Starts the one instance of a program, which has the program's name, and waits for its end. */
async function throughout(stage: Stage, program: Program, input?: unknown): Promise<void> {
  await stage.start([...program.code, ...ACTIVITIES]);
  await stage.client.startOrchestration(program.name, program.name, input);
  await stage.end(program.name);
}

// ---- activities ----

const activities: Program = {
  name: 'activities',
  code: [
    defineOrchestration('activities', function* (ctx, input: number) {
      const first = yield ctx.scheduleActivity('echo', input);
      const second = yield* ctx.call(echo, [first], {
        retry: {
          maxAttempts: 5,
          initialInterval: '1s',
          backoff: 1.5,
          maxInterval: '1m',
          jitter: 0,
          nonRetryable: ['TypeError'],
        },
        timeout: '1m',
        totalTimeout: '1h',
        heartbeatTimeout: '30s',
        queue: 'default',
        priority: 3,
      });
      const inline = yield* ctx.run('inline', ({ attempt, idempotencyKey }) => `${attempt} ${typeof idempotencyKey}`, {
        timeout: '1m',
        priority: -1,
      });
      const third = yield* ctx.call(nothing);
      const many = yield ctx.all([1, 2, 3].map((n) => ctx.scheduleActivity('echo', { n })));
      return { first, second, inline, third: typeof third, many };
    }),
  ],
  instances: { activities: ended },
  record: (stage) => throughout(stage, activities, 7),
};

const flaky = defineActivity(
  'flaky',
  async (ctx, failure: string) => {
    if (ctx.attempt > 1) return `attempt ${ctx.attempt} after ${failure}`;
    if (failure === 'asks for time') throw new RetryAfterError('1ms', 'not now');
    throw new Error(failure);
  },
  { retry: { maxAttempts: 3, initialInterval: 1, jitter: 0 } },
);

class StockError extends RangeError {
  override readonly name = 'StockError';
  readonly code = 'E_STOCK';
  readonly left = 0;
  readonly since = new Date(0);
}

const broken = defineActivity('broken', async (_, how: string) => {
  const root = Object.assign(new TypeError('the root \0 \ud800 😀'), { code: 42 });
  const middle = new Error('in between', { cause: root });
  switch (how) {
    case 'chain':
      throw new StockError('none left', { cause: middle });
    case 'for good':
      throw new NonRetryableError('never', { cause: 'a text' });
    case 'many':
      throw new AggregateError([middle, 'no error'], 'several');
    case 'value':
      throw { reason: 'a value', at: [1, 2] };
    default:
      throw undefined;
  }
});

const failures: Program = {
  name: 'failures',
  code: [
    defineOrchestration('failures', function* (ctx) {
      const told: unknown[] = [];
      for (const failure of ['once', 'asks for time'])
        told.push(yield* outcome(ctx.scheduleActivity('flaky', failure)));
      for (const how of ['chain', 'for good', 'many', 'value', 'undefined'])
        told.push(yield* outcome(ctx.scheduleActivity('broken', how, ONCE)));
      told.push(yield* outcome(ctx.call(flaky, 'once', ONCE)));
      told.push(
        yield* outcome(
          ctx.run(
            'inline',
            () => {
              throw new StockError('inline');
            },
            ONCE,
          ),
        ),
      );
      try {
        yield ctx.scheduleActivity('broken', 'chain', ONCE);
      } catch (error) {
        throw Object.assign(new Error('the orchestration fails, too', { cause: error }), { code: 'E_ORDER', told });
      }
    }),
  ],
  instances: { failures: { outcomes: ['failed'] } },
  record: (stage) => throughout(stage, failures),
};

/** Fails at once. The next attempt comes when the test is over. */
const later = defineActivity(
  'later',
  async () => {
    throw new Error('not yet');
  },
  { retry: { maxAttempts: 5, initialInterval: '24h', maxInterval: '7d', jitter: 0 } },
);

const retrying: Program = {
  name: 'retrying',
  code: [
    defineOrchestration('retrying', function* (ctx) {
      yield* ctx.call(later);
    }),
  ],
  instances: { retrying: { outcomes: ['waiting'], pending: [{ kind: 'activity', eventId: 2, name: 'later' }] } },
  async record(stage) {
    await stage.start([...retrying.code, later]);
    await stage.client.startOrchestration('retrying', 'retrying');
    await stage.recorded('retrying', 'ActivityAttemptFailed');
  },
};

// ---- values ----

/** Made anew each time: a cycle cannot be shared. */
function riches(): Record<string, unknown> {
  const cycle: Record<string, unknown> = { name: 'cycle' };
  cycle.self = cycle;
  return {
    date: new Date(86_400_000),
    map: new Map<unknown, unknown>([
      ['a', 1],
      [{ key: true }, new Set([1, 'two'])],
    ]),
    set: new Set([null, undefined]),
    big: -(2n ** 70n),
    absent: undefined,
    numbers: [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0, 5e-324, Number.MAX_SAFE_INTEGER],
    regexp: /a\/b"(?<x>😀)/giu,
    url: new URL('https://example.com/a?b=c#d'),
    query: new URLSearchParams([
      ['a', '1'],
      ['a', '2'],
    ]),
    bytes: Uint8Array.of(0, 127, 255),
    buffer: Buffer.from('ab\0'),
    words: BigInt64Array.of(-1n, 2n ** 62n),
    floats: Float64Array.of(0.5, Number.NaN),
    view: new DataView(Uint8Array.of(1, 2).buffer),
    holes: [1, , 3],
    error: Object.assign(new RangeError('in a value', { cause: new Error('its cause') }), { code: 'E' }),
    bare: Object.assign(Object.create(null) as object, { a: 1 }),
    boxed: Object('text') as unknown,
    cycle,
  };
}

/** Texts that stores and JSON are known to lose. */
const TEXTS = [
  '',
  '\0',
  'a\0b',
  '\ud800',
  '\udc00\ud800',
  '😀',
  'e\u0301',
  '\u2028',
  '\ufeff',
  '~',
  '~[1]',
  '#text',
  '"\\u0000"',
  '\r\n',
  "'; --",
];

/** Keys are defined as `JSON.parse` does: `__proto__` is a key like any other. */
const odd: unknown = JSON.parse(
  '{"__proto__":{"polluted":true},"constructor":1,"toString":null,"":"empty","\\u0000":"NUL","then":2}',
);

const values: Program = {
  name: 'values',
  code: [
    defineOrchestration('values', function* (ctx, input: ReturnType<typeof riches>) {
      const back = yield* ctx.call(echo, input);
      const texts = yield* ctx.call(echo, TEXTS);
      const keys = yield* ctx.call(echo, odd);
      const plain = yield* ctx.call(echo, { a: [1.5, true, null, { b: '' }], big: 1e300 });
      return { back, texts, keys, plain, polluted: Object.hasOwn(Object.prototype, 'polluted') };
    }),
  ],
  instances: { values: ended },
  record: (stage) => throughout(stage, values, riches()),
};

const unstorable: Program = {
  name: 'unstorable',
  code: [
    defineOrchestration('unstorable', function* (ctx) {
      const attempts = [
        () => ctx.scheduleActivity('echo', { f: () => 1 }),
        () => ctx.raiseEvent('nobody', 'event', Symbol('s')),
        () => ctx.setCustomStatus(new WeakMap()),
      ];
      for (const attempt of attempts) {
        try {
          attempt();
        } catch (error) {
          yield* ctx.call(echo, told(error));
        }
      }
      return { items: [1, Promise.resolve()] };
    }),
  ],
  instances: { unstorable: { outcomes: ['failed'] } },
  record: (stage) => throughout(stage, unstorable),
};

const names: Program = {
  name: 'names',
  code: [
    defineOrchestration(
      '__proto__ 😀',
      function* (ctx) {
        const isNew = ctx.patched('constructor');
        const first = yield ctx.scheduleActivity('toString', ctx.name);
        const inline = yield* ctx.run('\u2028\r\n', () => 'inline');
        const child = yield* ctx.scheduleSubOrchestration('it\'s "quoted"', first, { id: '子/%/_' });
        return [isNew, inline, child, yield* ctx.dequeueEvent('hasOwnProperty')];
      },
      { version: '1.0.0-ä' },
    ),
    defineOrchestration('it\'s "quoted"', function* (ctx, input) {
      yield ctx.scheduleTimer(0);
      return [input, ctx.parentId, ctx.instanceId];
    }),
  ],
  instances: { names: ended },
  async record(stage) {
    await stage.start([...names.code, defineActivity('toString', async (_, input) => input)]);
    await stage.client.startOrchestration('names', '__proto__ 😀', undefined, { version: '1.0.0-ä' });
    await stage.client.enqueueEvent('names', 'hasOwnProperty', 'job');
    await stage.end('names');
  },
};

// ---- time ----

const timers: Program = {
  name: 'timers',
  code: [
    defineOrchestration('timers', function* (ctx) {
      yield ctx.scheduleTimer(0);
      yield* ctx.sleep('1ms');
      const now = ctx.now();
      yield* ctx.sleep(new Date(now));
      // This timer is never awaited.
      ctx.scheduleTimer('30d');
      const given = ctx.scheduleTimer('1h');
      given.cancel('not needed');
      return [yield* outcome(given), ctx.now() >= now];
    }),
  ],
  instances: { timers: ended },
  record: (stage) => throughout(stage, timers),
};

/** A first turn that is later than this is recorded with its time, ms. The value has a margin. */
const LATE_MS = 1_200;

const late: Program = {
  name: 'late',
  code: [
    defineOrchestration('late', function* (ctx) {
      const begun = ctx.now();
      yield ctx.scheduleTimer(0);
      return ctx.now() >= begun;
    }),
  ],
  instances: { late: ended },
  async record(stage) {
    await stage.client.startOrchestration('late', 'late');
    // The delay itself is what the history records.
    await new Promise((resolve) => setTimeout(resolve, LATE_MS));
    await stage.start(late.code);
    await stage.end('late');
  },
};

// ---- messages ----

const EVENTS = ['approved', '__proto__', 'Ünï 😀', 'toString'];

const messages: Program = {
  name: 'messages',
  code: [
    defineOrchestration('messages', function* (ctx) {
      // All of them came early, in another order.
      const events: unknown[] = [];
      for (const name of EVENTS) events.push(yield* ctx.waitForEvent(name));
      const queue: unknown[] = [];
      for (let i = 0; i < 3; i += 1) queue.push(yield* ctx.dequeueEvent('jobs'));
      ctx.setCustomStatus('races');
      const raced = yield* ctx.race(ctx.waitForEvent('one'), ctx.waitForEvent('two'), ctx.scheduleTimer('24h'));
      // The wait for 'two' has lost the race, and consumed no event.
      const two = yield* ctx.waitForEvent('two');
      const none = yield* ctx.waitForEvent('none');
      return { events, queue, raced, two, none: typeof none };
    }),
  ],
  instances: { messages: ended },
  async record(stage) {
    const { client } = stage;
    await client.startOrchestration('messages', 'messages');
    for (const [i, name] of [...EVENTS].reverse().entries())
      await client.raiseEvent('messages', name, [odd, TEXTS][i] ?? riches().map);
    for (const job of ['first', TEXTS, { third: 3 }]) await client.enqueueEvent('messages', 'jobs', job);
    await stage.start(messages.code);
    await stage.status('messages', 'races');
    await client.raiseEvent('messages', 'one', 1);
    await client.raiseEvent('messages', 'two', { two: new Date(0) });
    await client.raiseEvent('messages', 'none');
    await stage.end('messages');
  },
};

// ---- others ----

const child = defineOrchestration('child', function* (ctx, how: string) {
  ctx.setCustomStatus('runs');
  if (how === 'returns') return { parent: ctx.parentId, how };
  if (how === 'throws') throw new StockError('in the child', { cause: new Error('its cause') });
  return yield* ctx.waitForEvent('never');
});

const children: Program = {
  name: 'children',
  code: [
    defineOrchestration('children', function* (ctx) {
      const told: unknown[] = [];
      const start = (how: string, name: string) =>
        ctx.scheduleSubOrchestration('child', how, { id: `children-${name}` });
      told.push(
        yield ctx.scheduleSubOrchestration('child', 'returns', {
          id: 'children-first',
          version: '1.0.0',
          tags: { colour: 'red' },
          priority: 2,
        }),
      );
      told.push(yield* ctx.callOrchestration(child, 'returns'));
      told.push(yield* outcome(start('throws', 'throws')));
      told.push(yield* outcome(start('returns', 'first')));
      const cancelled = start('waits', 'cancelled');
      ctx.setCustomStatus('cancel it');
      told.push(yield* outcome(cancelled));
      const terminated = start('waits', 'terminated');
      ctx.setCustomStatus('terminate it');
      told.push(yield* outcome(terminated));
      const left = start('waits', 'left');
      // The child exists by then. A child that is given up in the turn that asked for it would never exist.
      yield* ctx.run('a turn', () => 1);
      left.cancel('not needed');
      told.push(yield* outcome(left));
      return told;
    }),
    child,
  ],
  instances: {
    children: ended,
    'children-first': ended,
    'children-throws': { outcomes: ['failed'] },
    'children-cancelled': { outcomes: ['cancelled'] },
    'children-terminated': { outcomes: ['terminated'] },
    'children-left': { outcomes: ['cancelled'] },
  },
  async record(stage) {
    const { client } = stage;
    await stage.start(children.code);
    await client.startOrchestration('children', 'children');
    await stage.status('children', 'cancel it');
    await stage.status('children-cancelled', 'runs');
    await client.cancelInstance('children-cancelled', 'by hand');
    await stage.status('children', 'terminate it');
    await stage.status('children-terminated', 'runs');
    await client.terminateInstance('children-terminated', 'by force');
    await stage.end('children');
    await stage.end('children-left');
  },
};

const listener = defineOrchestration('listener', function* (ctx, name: string) {
  const greeting = yield* ctx.waitForEvent('greeting');
  ctx.setCustomStatus('greeted');
  return [name, greeting, yield* ctx.dequeueEvent('jobs')];
});

const others: Program = {
  name: 'others',
  code: [
    defineOrchestration('others', function* (ctx) {
      const id = yield* ctx.startOrchestration('listener', 'others-listener', 'Ada', {
        version: '1.0.0',
        tags: { by: 'others' },
        priority: -2,
      });
      yield* ctx.raiseEvent(id, 'greeting', { texts: TEXTS });
      yield* ctx.enqueueEvent(id, 'jobs', odd);
      // Sent even if the instance does not wait for it.
      ctx.startOrchestration('listener', 'others-unheard');
      ctx.raiseEvent('others-unheard', 'greeting');
      const told: unknown[] = [id];
      told.push(yield* outcome(ctx.startOrchestration('listener', 'others-listener')));
      told.push(yield* outcome(ctx.raiseEvent('others-nobody', 'greeting')));
      told.push(yield* outcome(ctx.enqueueEvent('others-ended', 'jobs', 1)));
      return told;
    }),
    listener,
  ],
  instances: {
    others: ended,
    'others-listener': ended,
    'others-unheard': { outcomes: ['waiting'], pending: [{ kind: 'queue', name: 'jobs' }] },
  },
  async record(stage) {
    const { client } = stage;
    await stage.start(others.code);
    await client.startOrchestration('others-ended', 'listener', 'ended');
    await client.raiseEvent('others-ended', 'greeting', 1);
    await client.enqueueEvent('others-ended', 'jobs', 1);
    await stage.end('others-ended');
    await client.startOrchestration('others', 'others');
    await stage.end('others');
    await stage.end('others-listener');
    await stage.status('others-unheard', 'greeted');
  },
};

const full: Program = {
  name: 'full',
  code: [
    defineOrchestration('full', function* (ctx) {
      return [
        yield* outcome(ctx.raiseEvent('full-mailbox', 'one')),
        yield* outcome(ctx.raiseEvent('full-mailbox', 'two')),
      ];
    }),
  ],
  instances: { full: ended },
  async record(stage) {
    await stage.start(full.code, { limits: { mailboxMessages: 1 } });
    await stage.client.startOrchestration('full-mailbox', 'nobody registers this');
    await stage.client.startOrchestration('full', 'full');
    await stage.end('full');
  },
};

// ---- executions ----

const again: Program = {
  name: 'again',
  code: [
    defineOrchestration('again', function* (ctx, { round, left }: { round: number; left: unknown[] }) {
      const status = ctx.getCustomStatus();
      ctx.setCustomStatus({ round });
      left.push(status, yield* ctx.dequeueEvent('jobs'));
      if (round === 2) yield* ctx.continueAsNew({ round: 3, left: new Set(left) }, { version: '2.0.0' });
      yield* ctx.continueAsNew({ round: round + 1, left });
    }),
    defineOrchestration(
      'again',
      function* (ctx, { round, left }: { round: number; left: Set<unknown> }) {
        return {
          round,
          left,
          last: yield* ctx.dequeueEvent('jobs'),
          version: ctx.version,
          execution: ctx.executionId,
          random: ctx.random() < 1,
        };
      },
      { version: '2.0.0' },
    ),
  ],
  instances: { again: { outcomes: ['continuedAsNew', 'continuedAsNew', 'completed'] } },
  async record(stage) {
    await stage.start(again.code);
    await stage.client.startOrchestration('again', 'again', { round: 1, left: [] }, { version: '1.0.0' });
    for (const job of ['first', 'second', 'third']) await stage.client.enqueueEvent('again', 'jobs', job);
    await stage.end('again');
  },
};

const unpatched = defineOrchestration('patched', function* (ctx) {
  ctx.setCustomStatus('waiting');
  yield* ctx.waitForEvent('go');
  return yield* ctx.call(echo, 'old');
});

const patched: Program = {
  name: 'patched',
  code: [
    defineOrchestration('patched', function* (ctx) {
      const first = ctx.patched('check first') ? yield* ctx.call(echo, 'checked') : 'unchecked';
      ctx.setCustomStatus('waiting');
      yield* ctx.waitForEvent('go');
      // The execution that passed here before has this patch, and not the other.
      const both = [ctx.patched('check first'), ctx.patched('ship faster')];
      return [first, both, yield* ctx.call(echo, 'old')];
    }),
  ],
  instances: { 'patched-before': ended, 'patched-after': ended },
  async record(stage) {
    const { client } = stage;
    const old = await stage.start([unpatched, echo]);
    await client.startOrchestration('patched-before', 'patched');
    await stage.status('patched-before', 'waiting');
    await old.shutdown();
    await stage.start([...patched.code, echo]);
    await client.startOrchestration('patched-after', 'patched');
    await stage.status('patched-after', 'waiting');
    for (const id of ['patched-before', 'patched-after']) {
      await client.raiseEvent(id, 'go');
      await stage.end(id);
    }
  },
};

// ---- several things at once ----

function* twice(ctx: OrchestrationContext, name: string): Steps<string> {
  const first = yield* ctx.waitForEvent(name);
  return `${name} ${first} ${yield* ctx.waitForEvent(name)}`;
}

const combinators: Program = {
  name: 'combinators',
  code: [
    defineOrchestration('combinators', function* (ctx) {
      const fails = () => ctx.scheduleActivity('broken', 'chain', ONCE);
      ctx.setCustomStatus('nested');
      const nested = yield* ctx.all([
        twice(ctx, 'a'),
        ctx.race(ctx.scheduleTimer('24h'), ctx.all([twice(ctx, 'b'), ctx.waitForEvent('c')]), { cancelLosers: true }),
        ctx.select({ d: ctx.waitForEvent('d'), never: ctx.waitForEvent('never') }),
      ]);
      const settled = yield* ctx.allSettled([ctx.call(echo, 1), fails(), ctx.scheduleTimer(0)]);
      const any = yield* ctx.any([fails(), ctx.call(echo, 'any')]);
      const failed = [
        yield* outcome(ctx.all([fails(), ctx.scheduleTimer('24h')], { cancelLosers: true })),
        yield* outcome(ctx.any([fails()])),
        yield* outcome(ctx.race([fails(), ctx.waitForEvent('never')])),
      ];
      const raced = yield* ctx.race(
        (function* (): Steps<string> {
          return yield ctx.scheduleActivity('echo', 'first');
        })(),
        ctx.scheduleTimer('24h'),
      );
      const inTime = yield* ctx.withTimeout('24h', ctx.call(echo, 'in time'));
      const outOfTime = yield* outcome(ctx.withTimeout('1ms', twice(ctx, 'never')));
      const empty = [yield* ctx.all([]), yield* ctx.allSettled([])];
      const shown = settled.map((one) => (one.status === 'fulfilled' ? (one.value ?? 'done') : told(one.reason)));
      return { nested, shown, any, failed, raced, inTime, outOfTime, empty };
    }),
  ],
  instances: { combinators: ended },
  async record(stage) {
    const { client } = stage;
    await stage.start([...combinators.code, ...ACTIVITIES]);
    await client.startOrchestration('combinators', 'combinators');
    await stage.status('combinators', 'nested');
    for (const name of ['b', 'a', 'c', 'd', 'b', 'a']) await client.raiseEvent('combinators', name, name.toUpperCase());
    await stage.end('combinators');
  },
};

const fibers: Program = {
  name: 'fibers',
  code: [
    defineOrchestration('fibers', function* (ctx) {
      const jobs = ctx.channel<number>(1);
      const done: string[] = [];
      const producer = ctx.spawn(function* () {
        for (let n = 1; n <= 4; n += 1) yield* jobs.send(n);
        jobs.close();
        return 'sent';
      });
      const consumers = ['a', 'b'].map((name) =>
        ctx.spawn(function* () {
          let job: number | typeof CLOSED;
          while ((job = yield* jobs.receive()) !== CLOSED) {
            yield ctx.scheduleTimer(0);
            done.push(`${name}${job}`);
          }
          return name;
        }),
      );
      const all = yield* ctx.all([producer, ...consumers]);
      const rest = ctx.channel<string>();
      for (const text of ['x', 'y']) rest.send(text);
      rest.close();
      yield* rest.forEach(function* (text) {
        done.push(`${yield* ctx.call(echo, text)}`);
      });
      const left = ctx.spawn(function* () {
        try {
          yield* ctx.waitForEvent('never');
        } finally {
          done.push('left');
        }
      });
      yield ctx.scheduleTimer(0);
      left.cancel('enough');
      const fails = ctx.spawn(function* () {
        yield ctx.scheduleTimer(0);
        throw new Error('in a fiber');
      });
      return { all, done, ends: [yield* outcome(left), yield* outcome(fails)] };
    }),
  ],
  instances: { fibers: ended },
  record: (stage) => throughout(stage, fibers),
};

const stuck: Program = {
  name: 'stuck',
  code: [
    defineOrchestration('stuck', function* (ctx) {
      yield* ctx.call(echo, 'before');
      yield* ctx.channel().receive();
    }),
  ],
  instances: { stuck: { outcomes: ['failed'] } },
  record: (stage) => throughout(stage, stuck),
};

// ---- ends that come from outside, and what is given up ----

const cancelled: Program = {
  name: 'cancelled',
  code: [
    defineOrchestration('cancelled', function* (ctx) {
      const part = ctx.scheduleSubOrchestration('child', 'waits', { id: 'cancelled-child' });
      const work = ctx.scheduleActivity('hang');
      yield* ctx.uncancellable(function* () {
        yield ctx.scheduleActivity('echo', 'reserved');
      });
      ctx.setCustomStatus('reserved');
      try {
        yield* ctx.race(ctx.waitForEvent('never'), ctx.scheduleTimer('24h'), part, work);
      } finally {
        yield ctx.scheduleActivity('echo', 'released');
        ctx.setCustomStatus('released');
      }
    }),
    child,
  ],
  instances: { cancelled: { outcomes: ['cancelled'] }, 'cancelled-child': { outcomes: ['cancelled'] } },
  async record(stage) {
    await stage.start([...cancelled.code, ...ACTIVITIES]);
    await stage.client.startOrchestration('cancelled', 'cancelled');
    await stage.status('cancelled', 'reserved');
    await stage.status('cancelled-child', 'runs');
    await stage.client.cancelInstance('cancelled', 'the customer \ud800 left');
    await stage.end('cancelled');
    await stage.end('cancelled-child');
  },
};

/** A block that waits, and takes a step when it is cancelled. */
function* held(ctx: OrchestrationContext, what: string): Steps<void> {
  try {
    ctx.setCustomStatus(what);
    yield* ctx.waitForEvent('never');
  } finally {
    yield* ctx.call(echo, `undo ${what}`);
  }
}

function* booked(ctx: OrchestrationContext, what: string): Steps<void> {
  yield* ctx.call(echo, `book ${what}`);
  yield* held(ctx, what);
}

/** One attempt at a time, so that concurrent activities end in the order in which they began. */
const ONE_BY_ONE = { activityConcurrency: 1 };

const saga: Program = {
  name: 'saga',
  code: [
    defineOrchestration('saga', function* (ctx) {
      yield* ctx.call(echo, 'hall');
      ctx.spawn(booked(ctx, 'beside'));
      try {
        yield* ctx.all([booked(ctx, 'left'), ctx.race(booked(ctx, 'right'), ctx.scheduleTimer('24h'))]);
      } catch (error) {
        yield* ctx.uncancellable(function* () {
          yield* ctx.call(echo, ['no hall', told(error)]);
        });
        throw error;
      }
    }),
  ],
  instances: { saga: { outcomes: ['cancelled'] } },
  async record(stage) {
    await stage.start([...saga.code, echo], ONE_BY_ONE);
    await stage.client.startOrchestration('saga', 'saga');
    await stage.status('saga', 'left');
    await stage.client.cancelInstance('saga', 'it rains');
    await stage.end('saga');
  },
};

const outOfTime: Program = {
  name: 'out-of-time',
  code: [
    defineOrchestration('out-of-time', function* (ctx) {
      const late = yield* outcome(ctx.withTimeout('1ms', held(ctx, 'late')));
      const lost = yield* ctx.race([held(ctx, 'lost'), ctx.scheduleTimer('1ms')], { cancelLosers: true });
      const given = ctx.all([held(ctx, 'given up'), ctx.waitForEvent('never')]);
      ctx.spawn(function* () {
        yield* ctx.scheduleTimer('1ms');
        given.cancel('not needed');
      });
      return [late, lost.index, yield* outcome(given)];
    }),
  ],
  instances: { 'out-of-time': ended },
  async record(stage) {
    await stage.start([...outOfTime.code, echo], ONE_BY_ONE);
    await stage.client.startOrchestration('out-of-time', 'out-of-time');
    await stage.end('out-of-time');
  },
};

const pool: Program = {
  name: 'pool',
  code: [
    defineOrchestration(
      'pool',
      function* (ctx) {
        const jobs = ctx.channel<string>();
        for (const job of ['a', 'b', 'c', 'd']) jobs.send(job);
        jobs.close();
        const worker = () => jobs.forEach((job) => booked(ctx, job));
        try {
          yield* ctx.all([worker(), worker()]);
        } catch (error) {
          const left: string[] = [];
          for (let job = yield* jobs; job !== free.CLOSED; job = yield* jobs) left.push(job);
          return [told(error), left];
        }
      },
      { cancelGrace: '1h' },
    ),
  ],
  instances: { pool: ended },
  async record(stage) {
    await stage.start([...pool.code, echo], ONE_BY_ONE);
    await stage.client.startOrchestration('pool', 'pool');
    await stage.status('pool', 'b');
    await stage.client.cancelInstance('pool');
    await stage.end('pool');
  },
};

const company = free.contextLocal('nobody');

const together: Program = {
  name: 'together',
  code: [
    defineOrchestration(
      'together',
      function* (ctx) {
        const ready = free.deferred<string>();
        const other = ctx.deferred<void>();
        const messages: string[] = [];
        const server = ctx.spawn(function* () {
          for (;;) {
            try {
              return yield* other;
            } catch (error) {
              messages.push((error as Error).message);
            }
          }
        });
        const waiting = ['a', 'b'].map((name) => {
          company.set(name);
          return ctx.spawn(function* () {
            return `${yield* ready} ${company.get()}`;
          });
        });
        for (const message of ['once', 'twice']) {
          yield* ctx.scheduleTimer(1);
          server.interrupt(new Error(message));
        }
        yield* ctx.scheduleTimer(1);
        ready.resolve('go');
        const words = yield* ctx.all(waiting);
        other.resolve();
        yield* server;
        const never = () => ctx.waitForEvent('never');
        const results = [
          yield* ctx.raceSettled([ctx.scheduleActivity('broken', 'chain', ONCE), never()]),
          yield* ctx.selectSettled({ broken: ctx.scheduleActivity('broken', 'chain', ONCE), never: never() }),
          yield* free.raceSettled(ctx.scheduleTimer(0), never()),
          yield* free.selectSettled(
            { timer: ctx.scheduleTimer(0), block: held(ctx, 'block') },
            { cancelLosers: 'blocks' },
          ),
        ];
        ctx.spawn(held(ctx, 'left'));
        yield* ctx.scheduleTimer(1);
        return [
          words,
          messages,
          results.map(({ status, ...place }) => [
            status,
            ...Object.values(place).map((value) => (value instanceof Error ? told(value) : value)),
          ]),
        ];
      },
      { onEnd: 'cancel' },
    ),
  ],
  instances: { together: ended },
  record: (stage) => throughout(stage, together),
};

const shielded: Program = {
  name: 'shielded',
  code: [
    defineOrchestration('shielded', function* (ctx) {
      const caught: unknown[] = [];
      try {
        yield* ctx.uncancellable(function* () {
          ctx.setCustomStatus('shielded');
          caught.push(yield* ctx.waitForEvent('done'));
        });
        yield* ctx.waitForEvent('never');
      } catch (error) {
        caught.push(told(error));
      }
      // The instance was asked to cancel, and ends in its own way instead.
      return caught;
    }),
  ],
  instances: { shielded: ended },
  async record(stage) {
    const { client } = stage;
    await stage.start(shielded.code);
    await client.startOrchestration('shielded', 'shielded');
    await stage.status('shielded', 'shielded');
    await client.cancelInstance('shielded');
    await client.raiseEvent('shielded', 'done', 'and done');
    await stage.end('shielded');
  },
};

const givenUp: Program = {
  name: 'given-up',
  code: [
    defineOrchestration('given-up', function* (ctx) {
      const futures = [
        ctx.scheduleActivity('hang'),
        ctx.run(
          'hangs inline',
          ({ signal }) => new Promise((resolve) => signal.addEventListener('abort', () => resolve(1), { once: true })),
        ),
        ctx.scheduleTimer('1h'),
        ctx.waitForEvent('never'),
        ctx.dequeueEvent('never'),
        ctx.all([ctx.scheduleTimer('2h'), twice(ctx, 'never')]),
      ];
      // By then the activities run.
      yield* ctx.call(echo, 'begun');
      for (const [i, future] of futures.entries()) future.cancel(`reason ${i}`);
      const told: unknown[] = [];
      for (const future of futures) told.push(yield* outcome(future));
      return told;
    }),
  ],
  instances: { 'given-up': ended },
  record: (stage) => throughout(stage, givenUp),
};

const terminated: Program = {
  name: 'terminated',
  code: [
    defineOrchestration('terminated', function* (ctx) {
      try {
        yield* ctx.call(echo, 'before');
        ctx.setCustomStatus('waiting');
        yield* ctx.waitForEvent('never');
      } finally {
        yield* ctx.call(echo, 'never');
      }
    }),
  ],
  instances: { terminated: { outcomes: ['terminated'] }, 'terminated-unbegun': { outcomes: ['terminated'] } },
  async record(stage) {
    await stage.client.startOrchestration('terminated-unbegun', 'terminated');
    await stage.client.terminateInstance('terminated-unbegun');
    await stage.start([...terminated.code, echo]);
    await stage.client.startOrchestration('terminated', 'terminated');
    await stage.status('terminated', 'waiting');
    await stage.client.terminateInstance('terminated', 'no longer wanted');
  },
};

// ---- what is synchronous ----

const facts: Program = {
  name: 'facts',
  code: [
    defineOrchestration('facts', function* (ctx) {
      const record = (what: string, value: unknown) => ctx.call(echo, { [what]: value });
      yield* record('identity', [ctx.instanceId, ctx.executionId, ctx.name, ctx.version, ctx.parentId]);
      yield* record('length', [ctx.historyLength, ctx.continueAsNewSuggested]);
      yield* record('chance', [ctx.random(), Math.random(), ctx.randomUUID(), crypto.randomUUID(), cryptoUUID()]);
      yield* record('time', [ctx.now(), Date.now(), new Date(), new Date().getTime(), performance.now()]);
      const calls = [
        () => setTimeout(() => {}, 1),
        () => setInterval(() => {}, 1),
        () => setImmediate(() => {}),
        () => queueMicrotask(() => {}),
        () => fetch('https://example.com'),
      ];
      yield* record(
        'forbidden',
        calls.map((call) => {
          try {
            return call();
          } catch (error) {
            return (error as Error).name;
          }
        }),
      );
      for (const level of ['traceDebug', 'traceInfo', 'traceWarn', 'traceError'] as const)
        ctx[level]('a line', { replaying: ctx.isReplaying });
      const statuses: unknown[] = [ctx.getCustomStatus()];
      for (const status of [{ rich: new Date(0) }, TEXTS, null]) {
        ctx.setCustomStatus(status);
        statuses.push(ctx.getCustomStatus());
      }
      ctx.resetCustomStatus();
      yield* record('statuses', [...statuses, ctx.getCustomStatus()]);
      ctx.setCustomStatus(odd);
      return yield* outcome(Promise.resolve() as never);
    }),
  ],
  instances: { facts: ended },
  record: (stage) => throughout(stage, facts),
};

const freely: Program = {
  name: 'freely',
  code: [
    defineOrchestration('freely', function* (_, round: number) {
      const {
        call,
        run,
        sleep,
        scheduleTimer,
        all,
        allSettled,
        any,
        race,
        select,
        spawn,
        channel,
        withTimeout,
        uncancellable,
      } = free;
      if (round === 1) {
        free.setCustomStatus('first');
        return yield* free.continueAsNew(2);
      }
      const status = free.getCustomStatus();
      free.resetCustomStatus();
      free.traceDebug('a line');
      free.traceInfo('a line');
      free.traceWarn('a line');
      free.traceError('a line');
      const box = channel<number>();
      box.send(5);
      const values = yield* all([
        call(echo, 1),
        free.scheduleActivity('echo', 2),
        run('three', () => 3),
        spawn(function* () {
          return yield* box.receive();
        }),
      ]);
      yield* sleep(0);
      yield* allSettled([scheduleTimer(0)]);
      yield* any([scheduleTimer(0)]);
      yield* race(scheduleTimer(0), free.waitForEvent('never'));
      yield* select({ timer: scheduleTimer(0), job: free.dequeueEvent('never') });
      yield* withTimeout('24h', scheduleTimer(0));
      yield* uncancellable(function* () {
        yield scheduleTimer(0);
      });
      const id = yield* free.startOrchestration('listener', 'freely-listener', 'free');
      yield* free.raiseEvent(id, 'greeting');
      yield* free.enqueueEvent(id, 'jobs');
      const parts = [
        yield* free.callOrchestration(child, 'returns'),
        yield* free.scheduleSubOrchestration('child', 'returns'),
      ];
      yield* call(echo, [
        free.now(),
        free.random(),
        free.randomUUID(),
        free.currentContext().instanceId,
        free.patched('free'),
      ]);
      return { status, values, parts: parts.length };
    }),
    child,
    listener,
  ],
  instances: { freely: { outcomes: ['continuedAsNew', 'completed'] } },
  record: (stage) => throughout(stage, freely, 1),
};

/** Parses texts of numbers to numbers. */
const numeric: StandardSchema<string, number> = {
  '~standard': {
    version: 1,
    vendor: 'golden',
    validate: (value) =>
      typeof value === 'string' && /^\d+$/.test(value)
        ? { value: Number(value) }
        : { issues: [{ message: 'no number', path: ['amount'] }] },
  },
};

const checked: Program = {
  name: 'checked',
  code: [
    defineOrchestration(
      'checked',
      function* (ctx, amount) {
        ctx.setCustomStatus('waiting');
        return [
          amount,
          yield* outcome(ctx.waitForEvent('amount', numeric)),
          yield* outcome(ctx.waitForEvent('amount', numeric)),
        ];
      },
      { input: numeric },
    ),
  ],
  instances: { checked: ended, 'checked-wrong': { outcomes: ['failed'] } },
  async record(stage) {
    const { client } = stage;
    await stage.start(checked.code);
    await client.startOrchestration('checked-wrong', 'checked', 'many');
    await stage.end('checked-wrong');
    await client.startOrchestration('checked', 'checked', '5');
    await client.raiseEvent('checked', 'amount', '6');
    await client.raiseEvent('checked', 'amount', 'many');
    await stage.end('checked');
  },
};

// ---- what has not ended ----

const waiting: Program = {
  name: 'waiting',
  code: [
    defineOrchestration('waiting', function* (ctx) {
      yield* ctx.call(echo, 'before');
      const work = [
        ctx.scheduleActivity('hang'),
        ctx.run(
          'hangs inline',
          ({ signal }) => new Promise((resolve) => signal.addEventListener('abort', () => resolve(1), { once: true })),
        ),
        ctx.scheduleTimer('24h'),
        ctx.scheduleSubOrchestration('child', 'waits', { id: 'waiting-child' }),
        ctx.waitForEvent('__proto__'),
        ctx.dequeueEvent('jobs'),
      ];
      // This timer is never awaited.
      ctx.scheduleTimer('48h');
      const spare = ctx.scheduleActivity('hang');
      spare.cancel();
      ctx.setCustomStatus('waiting');
      yield* ctx.all(work);
    }),
    child,
  ],
  instances: {
    waiting: {
      outcomes: ['waiting'],
      pending: [
        { kind: 'activity', eventId: 4, name: 'hang' },
        { kind: 'activity', eventId: 5, name: 'hangs inline' },
        { kind: 'timer', eventId: 6 },
        { kind: 'child', eventId: 7, name: 'child', instanceId: 'waiting-child' },
        { kind: 'event', name: '__proto__' },
        { kind: 'queue', name: 'jobs' },
      ],
    },
    'waiting-child': { outcomes: ['waiting'], pending: [{ kind: 'event', name: 'never' }] },
  },
  async record(stage) {
    await stage.start([...waiting.code, ...ACTIVITIES]);
    await stage.client.startOrchestration('waiting', 'waiting');
    await stage.status('waiting', 'waiting');
    await stage.status('waiting-child', 'runs');
  },
};

const unbegun: Program = {
  name: 'unbegun',
  code: [
    defineOrchestration('unbegun', function* (ctx) {
      yield* ctx.waitForEvent('never');
    }),
  ],
  instances: { unbegun: { outcomes: ['notBegun'] } },
  record: (stage) => stage.client.startOrchestration('unbegun', 'unbegun', { input: riches().map }),
};

const ACTIVITIES = [echo, nothing, hang, flaky, broken];

export const PROGRAMS: readonly Program[] = [
  activities,
  failures,
  retrying,
  values,
  unstorable,
  names,
  timers,
  late,
  messages,
  children,
  others,
  full,
  again,
  patched,
  combinators,
  fibers,
  stuck,
  cancelled,
  saga,
  outOfTime,
  pool,
  together,
  shielded,
  givenUp,
  terminated,
  facts,
  freely,
  checked,
  waiting,
  unbegun,
];
