// A worker process that tests start, watch and kill (see support/worker.ts). Runs in plain Node with the built package.

import { existsSync } from 'node:fs';
import { Client, Runtime } from 'perdure';

import { openLog, openStore, pause, say } from '../support/worker-parts.mjs';

const {
  store,
  log,
  name,
  runtime: runtimeOptions = {},
  stepMs = 0,
  holds = false,
  harms = false,
} = JSON.parse(process.argv[2]);

const write = openLog(log);

function effect(event, ctx, step) {
  const { instanceId: id, attempt, idempotencyKey: key } = ctx;
  write({ event, worker: name, id, step, attempt, key, at: Date.now() });
}

let afterFailure;
const failed = new Promise((resolve) => {
  afterFailure = resolve;
});

function registerLogs(runtime) {
  runtime.registerOrchestration('logs', function* (ctx, { steps }) {
    for (let step = 1; step <= steps; step += 1) {
      ctx.traceInfo(`before ${step}`);
      yield ctx.scheduleActivity('step', { step, value: 0 });
      ctx.traceInfo(`after ${step}`);
    }
  });
}

function register(runtime) {
  runtime.registerActivity('step', async (ctx, { step, value }) => {
    await paused(ctx, step);
    return (value * 31 + step) % 1_000_003;
  });
  runtime.registerOrchestration('steps', function* (ctx, { seed, steps }) {
    let value = seed;
    for (let step = 1; step <= steps; step += 1) value = yield ctx.scheduleActivity('step', { step, value });
    return value;
  });

  runtime.registerActivity('hold', async (ctx) => {
    effect('begin', ctx, 1);
    say({ type: 'step', id: ctx.instanceId });
    if (holds) await new Promise(() => {});
    effect('end', ctx, 1);
    return name;
  });
  runtime.registerOrchestration('holds', function* (ctx) {
    return yield ctx.scheduleActivity('hold');
  });

  // By the time this start is acknowledged, the heartbeat is stored.
  runtime.registerActivity('beats', async (ctx) => {
    effect('begin', ctx, 1);
    if (ctx.lastHeartbeat !== undefined) return { from: ctx.lastHeartbeat, attempt: ctx.attempt, worker: name };
    ctx.heartbeat(new Map([['row', 7n]]));
    await ctx.client.startOrchestration(`${ctx.instanceId} is stored`, 'nobody registers this');
    say({ type: 'step', id: ctx.instanceId });
    await new Promise(() => {});
  });
  runtime.registerOrchestration('beats', function* (ctx) {
    return yield ctx.scheduleActivity('beats');
  });

  runtime.registerOrchestration('inline', function* (ctx) {
    const local = yield ctx.run('begin', () => name);
    return yield ctx.run('hold', async (activity) => {
      effect('begin', activity, 2);
      say({ type: 'step', id: activity.instanceId });
      if (holds) await new Promise(() => {});
      return { begun: local, worker: name };
    });
  });

  // The first attempt fails, and the next one follows after a while.
  runtime.registerActivity(
    'flaky',
    async (ctx) => {
      effect('begin', ctx, 1);
      if (ctx.attempt > 1) return { attempt: ctx.attempt, worker: name };
      setImmediate(afterFailure);
      throw new Error('first');
    },
    { retry: { initialInterval: '1s', jitter: 0 } },
  );
  runtime.registerActivity('after the failure', () => failed);
  runtime.registerOrchestration('flaky', function* (ctx) {
    const flaky = ctx.scheduleActivity('flaky');
    yield ctx.scheduleActivity('after the failure');
    ctx.setCustomStatus('waits for its second attempt');
    return yield flaky;
  });
}

// A parent of two children in each of three executions, and a detached instance that it sends their sums to.
function registerFamily(runtime) {
  runtime.registerOrchestration('family', function* (ctx, { seed, steps, total = 0 }) {
    const sink = `${ctx.instanceId}-sink`;
    if (ctx.executionId === 1) yield ctx.startOrchestration('sink', sink);
    const inputs = [seed, seed + 1].map((n) => ({ seed: n + ctx.executionId, steps }));
    const values = yield ctx.all(inputs.map((input) => ctx.scheduleSubOrchestration('steps', input)));
    const sum = total + values[0] + values[1];
    yield ctx.enqueueEvent(sink, 'sums', [ctx.executionId, sum]);
    if (ctx.executionId === 3) return sum;
    yield ctx.continueAsNew({ seed, steps, total: sum });
  });
  runtime.registerOrchestration('sink', function* (ctx) {
    const sums = [];
    while (sums.length < 3) sums.push(yield ctx.dequeueEvent('sums'));
    return sums;
  });
}

// Registers orchestrations that clients talk to while processes come and go.
function registerMail(runtime) {
  // Runs a step, then receives all parts up to the last, then runs the other steps.
  runtime.registerOrchestration('collects', function* (ctx, { seed, steps }) {
    let value = yield ctx.scheduleActivity('step', { step: 1, value: seed });
    const parts = [];
    for (let part = yield ctx.dequeueEvent('parts'); part !== 'last'; part = yield ctx.dequeueEvent('parts'))
      parts.push(part);
    for (let step = 2; step <= steps; step += 1) value = yield ctx.scheduleActivity('step', { step, value });
    return { value, parts };
  });
  // Ends only when it is cancelled.
  runtime.registerOrchestration('waits', function* (ctx) {
    yield ctx.scheduleActivity('step', { step: 1, value: 0 });
    yield ctx.waitForEvent('never');
  });
  runtime.registerOrchestration('answers', function* (ctx) {
    return yield ctx.waitForEvent('question');
  });
}

// Adds items by updates, each with a step. Continues as new after 20 of them.
function registerCarts(runtime) {
  runtime.registerOrchestration('cart', function* (ctx, items) {
    const isFull = ctx.deferred();
    let added = 0;
    ctx.onUpdate('add', function* (item) {
      yield ctx.scheduleActivity('step', { step: item, value: 0 });
      added += 1;
      if (added === 20) isFull.resolve();
      return items.push(item);
    });
    const first = yield ctx.race(isFull, ctx.waitForEvent('check out'));
    yield ctx.finishUpdates();
    if (first.index === 0) yield ctx.continueAsNew(items);
    return items;
  });
}

// An activity that takes `stepMs` and leaves its effects.
async function paused(ctx, step) {
  effect('begin', ctx, step);
  say({ type: 'step', id: ctx.instanceId });
  await pause(stepMs);
  effect('end', ctx, step);
  return step;
}

// Registers an activity for a queue that only some of the workers serve.
function registerQueued(runtime) {
  runtime.registerActivity('queued', paused);
  runtime.registerOrchestration('queued', function* (ctx, { steps }) {
    let sum = 0;
    for (let step = 1; step <= steps; step += 1) sum += yield ctx.scheduleActivity('queued', step, { queue: 'far' });
    return sum;
  });
}

// Registers an activity with a session. The id of an instance begins with the name of its session.
function registerSessions(runtime) {
  runtime.registerActivity('used', paused);
  runtime.registerOrchestration('session', function* (ctx, { steps }) {
    const [session] = ctx.instanceId.split(':');
    let sum = 0;
    for (let step = 1; step <= steps; step += 1) sum += yield ctx.scheduleActivity('used', step, { session });
    return sum;
  });
}

function registerNaps(runtime) {
  runtime.registerOrchestration('naps', function* (ctx, ms) {
    yield ctx.scheduleTimer(ms);
  });
}

// Registers orchestrations and activities that harm the process they run in.
function registerHarmful(runtime) {
  runtime.registerOrchestration('spins', function* (ctx) {
    yield ctx.waitForEvent('go');
    for (;;);
  });
  runtime.registerOrchestration('exits in turn', function* (ctx) {
    yield ctx.waitForEvent('go');
    process.exit(3);
  });
  runtime.registerActivity('exit', () => process.exit(3));
  runtime.registerOrchestration('exits in activity', function* (ctx) {
    yield ctx.waitForEvent('go');
    yield ctx.scheduleActivity('exit');
  });
  /** Blocks the thread until the file exists. */
  const block = (ctx, until) => {
    effect('begin', ctx, 1);
    const never = new Int32Array(new SharedArrayBuffer(4));
    while (!existsSync(until)) Atomics.wait(never, 0, 0, 10);
    effect('end', ctx, 1);
    return name;
  };
  runtime.registerActivity('block at once', block);
  runtime.registerActivity('block after a while', async (ctx, until) => {
    say({ type: 'step', id: ctx.instanceId });
    await pause(1);
    return block(ctx, until);
  });
  runtime.registerOrchestration('blocks', function* (ctx, { until, isLater }) {
    yield ctx.waitForEvent('go');
    return yield ctx.scheduleActivity(isLater ? 'block after a while' : 'block at once', until);
  });
}

async function start(client, { name: orchestration, instances }) {
  for (const { id, input } of instances) {
    await client.startOrchestration(id, orchestration, input, { onConflict: 'return' });
    say({ type: 'acknowledged', id });
  }
}

async function wait(client, { ids }) {
  const ends = ids.map(async (id) => {
    const { status, output } = await client.waitForOrchestration(id);
    say({ type: 'ended', id, status, output });
  });
  await Promise.all(ends);
}

const provider = await openStore(store);
const client = new Client(provider);
const runtime = new Runtime(provider, { logLevel: 'warn', workerName: name, ...runtimeOptions });
register(runtime);
registerLogs(runtime);
registerFamily(runtime);
registerMail(runtime);
registerCarts(runtime);
registerQueued(runtime);
registerSessions(runtime);
registerNaps(runtime);
if (harms) registerHarmful(runtime);
await runtime.start();

process.on('message', (command) => {
  if (command.type === 'start') return void start(client, command);
  if (command.type === 'wait') return void wait(client, command);
  const stopped = runtime.shutdown(command.timeout);
  say({ type: 'stopping' });
  void stopped.then(() => provider.close()).then(() => process.disconnect());
});
say({ type: 'ready' });
