// The code that the worker threads of threads.test.ts run: plain Node and the built package.

import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { isMainThread, threadId } from 'node:worker_threads';
import { activityContext, defineActivity, defineOrchestration, NonRetryableError } from 'perdure';

/** Returns the thread that runs it. */
export const where = defineActivity('where', async () => threadId);

/** Real work that blocks its thread. */
export const dig = defineActivity('dig', async (_ctx, rounds) => {
  let sum = 0;
  for (let n = 0; n < rounds; n += 1) sum = (sum * 31 + n) % 1_000_003;
  return { sum, thread: threadId };
});

export const digs = defineOrchestration('digs', function* (ctx, { holes, rounds }) {
  return yield ctx.all(Array.from({ length: holes }, () => ctx.scheduleActivity('dig', rounds)));
});

const own = new AsyncLocalStorage();

export const below = defineActivity('below', async (ctx) =>
  own.run(ctx.instanceId, async () => {
    await sleep(1);
    const { instanceId, attempt } = activityContext();
    await ctx.client.startOrchestration(`${instanceId} detached`, 'nobody registers this', { from: threadId });
    ctx.traceInfo('below', { thread: threadId });
    return { instanceId, attempt, own: own.getStore(), thread: threadId };
  }),
);

/** Ends when its signal is aborted, and reports the reason. */
export const waits = defineActivity('waits', async (ctx) => {
  ctx.heartbeat({ thread: threadId });
  await ctx.client.startOrchestration(`${ctx.instanceId} waits`, 'nobody registers this');
  await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve, { once: true }));
  await ctx.client.startOrchestration(`${ctx.instanceId} stopped`, 'nobody registers this', `${ctx.signal.reason}`);
});

export const fails = defineActivity('fails', async () => {
  throw new NonRetryableError(`on purpose, thread ${threadId}`);
});

/** Performs each kind of operation, on any thread. */
export const everything = defineOrchestration('everything', function* (ctx, input) {
  ctx.traceInfo('begun', { input, thread: threadId });
  ctx.setCustomStatus({ thread: threadId });
  const first = yield ctx.scheduleActivity('below');
  const inline = yield ctx.run('inline', async () => threadId);
  const time = Date.now();
  let error;
  try {
    yield ctx.scheduleActivity('fails');
  } catch (caught) {
    error = { name: caught.name, message: caught.message };
  }
  const event = yield ctx.waitForEvent('go');
  const child = yield ctx.scheduleSubOrchestration('child', event);
  return { first, inline, isTime: time > 1e12, error, child, thread: threadId };
});

export const child = defineOrchestration('child', function* (ctx, n) {
  return (yield ctx.scheduleActivity('double', n)) + 1;
});

/** Publishes its thread, reads the values of another instance, and returns them with its thread. */
export const reads = defineOrchestration('reads', function* (ctx, other) {
  ctx.state.set('thread', threadId);
  if (other === undefined) return threadId;
  return { read: yield* ctx.readState(other, 'thread'), thread: threadId };
});

export const stops = defineOrchestration('stops', function* (ctx) {
  yield ctx.scheduleActivity('waits');
});

/** Takes down the first worker thread that runs it. On the main thread it does nothing and says so. */
export const harms = defineActivity('harms', async (ctx, how) => {
  if (isMainThread) return 'not here';
  const met = await ctx.client.startOrchestration(`${ctx.instanceId} ${how}`, 'nobody registers this').then(
    () => false,
    () => true,
  );
  if (met) return 'again';
  if (how === 'exit') process.exit(3);
  setImmediate(() => {
    throw new Error('nobody catches this');
  });
  await new Promise(() => {});
});

export const harmed = defineOrchestration('harmed', function* (ctx, how) {
  for (;;) {
    const said = yield ctx.scheduleActivity('harms', how);
    if (said === 'again') return said;
  }
});

/** Its code ends each worker thread that runs it. On the main thread it sleeps, and may continue on another thread. */
export const exits = defineOrchestration('exits', function* (ctx) {
  for (;;) {
    yield ctx.scheduleActivity('where');
    if (!isMainThread) process.exit(4);
    yield ctx.scheduleTimer('1.2s');
  }
});

export const steps = defineOrchestration('steps', function* (ctx, count) {
  let n = 0;
  for (let step = 0; step < count; step += 1) n = yield ctx.scheduleActivity('next', n);
  return n;
});

export const mails = defineOrchestration('mails', function* (ctx, count) {
  const got = [];
  while (got.length < count) got.push(yield ctx.dequeueEvent('mail'));
  return got;
});

/** The default function of a module registers activities that are not exports. */
export default function register(runtime) {
  runtime.registerActivity('double', async (_ctx, n) => 2 * n).registerActivity('next', async (_ctx, n) => n + 1);
}

const counts = defineActivity('counts', async (ctx, count) => {
  for (let n = 0; n < count; n += 1) ctx.stream('s').write(n);
});

export const streams = defineOrchestration('streams', function* (ctx, count) {
  yield* ctx.call(counts, count);
});

export { counts };
