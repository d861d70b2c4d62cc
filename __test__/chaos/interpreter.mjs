// Runs the programs of programs.ts in a worker process. model.ts computes their results.

import { ActivityError, CancelledError, NonRetryableError, SubOrchestrationError, TimeoutError } from 'perdure';

import { pause } from '../support/worker-parts.mjs';

const FAR_AWAY = '1h';

/** The retry policy for attempts that fail or hang on purpose: the next attempt comes soon, and none is the last. */
const RETRY = { maxAttempts: 100, initialInterval: 5, maxInterval: 100, jitter: 0 };

const mix = (value, k) => (value * 31 + k) % 1_000_003;

/** Rethrows the error unless it is of the expected kind. */
function expected(error, kind) {
  if (!(error instanceof kind)) throw error;
}

function* run(ctx, block, value, seen) {
  for (const statement of block) value = yield* RUN[statement.do](ctx, statement, value, seen);
  return value;
}

const inOrder = (value, results) => results.reduce(mix, value);

/** The statements by kind. Each takes the number that the program carries, and returns the next one. */
const RUN = {
  *step(ctx, { k, failures, ms, hangs, queue }, value) {
    const options = { retry: RETRY, queue, ...(hangs ? { timeout: '100ms' } : {}) };
    return yield ctx.scheduleActivity('step', { k, failures, ms, hangs, value }, options);
  },

  *refused(ctx, { k }, value) {
    try {
      yield ctx.scheduleActivity('refuse');
    } catch (error) {
      expected(error, ActivityError);
      return mix(value, k);
    }
    throw new Error('an activity that fails has not failed');
  },

  *abandoned(ctx, { k }, value) {
    const held = ctx.scheduleActivity('hold');
    yield ctx.scheduleTimer(10);
    held.cancel();
    try {
      yield held;
    } catch (error) {
      expected(error, CancelledError);
      return mix(value, k);
    }
    throw new Error('an activity that never returns has returned');
  },

  *inline(ctx, { k }, value) {
    return yield ctx.run('inline', (activity) => recorded(activity, () => mix(value, k)));
  },

  *timer(ctx, { ms }, value) {
    yield ctx.scheduleTimer(ms);
    return value;
  },

  *timeout(ctx, { ms, k }, value) {
    try {
      yield ctx.withTimeout(ms, ctx.waitForEvent('nothing'));
    } catch (error) {
      expected(error, TimeoutError);
      return mix(value, k);
    }
    throw new Error('an event came that nobody has raised');
  },

  *draw(ctx, _, value) {
    const draw = () => [ctx.random(), ctx.randomUUID(), ctx.now()];
    const drawn = draw();
    // The first drawing is recorded. A replay draws again and must draw the same.
    const first = yield ctx.run('drawn', () => drawn);
    if (JSON.stringify(first) !== JSON.stringify(drawn)) throw new Error(`a replay drew ${drawn} for ${first}`);
    return value;
  },

  *status(ctx, { k }, value) {
    ctx.setCustomStatus(k);
    return value;
  },

  *all(ctx, { blocks }, value, seen) {
    return inOrder(value, yield ctx.all(blocks.map((block, i) => run(ctx, block, value + i, seen))));
  },

  *race(ctx, { block }, value, seen) {
    const { index, value: won } = yield ctx.race([run(ctx, block, value, seen), ctx.scheduleTimer(FAR_AWAY)], {
      cancelLosers: true,
    });
    if (index !== 0) throw new Error('a timer fired early');
    return won;
  },

  *fibers(ctx, { blocks }, value, seen) {
    const channel = ctx.channel();
    const results = [];
    const fibers = blocks.map((block, i) =>
      ctx.spawn(function* () {
        yield channel.send([i, yield* run(ctx, block, value + i, seen)]);
      }),
    );
    while (Object.keys(results).length < blocks.length) {
      const [i, result] = yield channel.receive();
      results[i] = result;
    }
    yield ctx.all(fibers);
    return inOrder(value, results);
  },

  *child(ctx, { n, program }, value) {
    try {
      const { value: result } = yield ctx.scheduleSubOrchestration(
        'program',
        { program },
        { id: `${ctx.instanceId}.${n}` },
      );
      return mix(value, result);
    } catch (error) {
      expected(error, SubOrchestrationError);
      if (error.cause?.message !== PLANNED) throw error;
      return mix(value, 0);
    }
  },

  *detached(ctx, { n, program, letters }, value) {
    const id = `${ctx.instanceId}.${n}`;
    yield ctx.startOrchestration('program', id, { program });
    const { mailbox, name } = program.segments.flat().find((statement) => statement.do === 'collect');
    const send = mailbox === 'queue' ? ctx.enqueueEvent : ctx.raiseEvent;
    for (let seq = 1; seq <= letters; seq += 1) yield send.call(ctx, id, name, [seq, 1]);
    return value;
  },

  *collect(ctx, { mailbox, name, count }, value, seen) {
    const receive = () => (mailbox === 'queue' ? ctx.dequeueEvent(name) : ctx.waitForEvent(name));
    seen[name] ??= [];
    let next = 1;
    while (next <= count) {
      // A message whose sending had an unknown outcome may arrive twice. The second number tells the two apart.
      const [seq, attempt] = yield receive();
      seen[name].push([seq, attempt]);
      if (seq > next) throw new Error(`message ${seq} of '${name}' came in the place of ${next}`);
      if (seq < next) continue;
      value = mix(value, seq);
      next += 1;
    }
    return value;
  },

  *never(ctx) {
    yield ctx.waitForEvent('never');
  },
};

/** The error message of programs that are planned to fail. */
export const PLANNED = 'this was to fail';

/** Runs one execution of a program. It then continues as new, or ends. */
function* execute(ctx, { program, at = 0, value = 1, seen = {} }) {
  if (program.isNoted && at === 0) yield ctx.scheduleActivity('gate', 'enter', { retry: RETRY });
  const next = yield* run(ctx, program.segments[at], value, seen);
  if (at + 1 < program.segments.length) yield ctx.continueAsNew({ program, at: at + 1, value: next, seen });
  if (program.isNoted) yield ctx.scheduleActivity('gate', 'leave', { retry: RETRY });
  ctx.setCustomStatus(`${ctx.instanceId} is over`);
  if (program.ending === 'Failed') throw new Error(PLANNED);
  return { value: next, seen };
}

/** Writes to the effect log of this process. */
let effect = () => {};

function recorded(ctx, work) {
  effect('begin', ctx);
  const result = work();
  effect('end', ctx);
  return result;
}

/** Registers the orchestrations and activities that programs need. `write(event, ctx)` writes to the effect log. */
export function register(runtime, write) {
  effect = write;
  const untilAborted = ({ signal }) =>
    new Promise((_, reject) => {
      if (signal.aborted) reject(signal.reason);
      else signal.addEventListener('abort', () => reject(signal.reason));
    });

  runtime.registerActivity('step', async (ctx, { k, failures, ms, hangs, value }) => {
    effect('begin', ctx);
    if (hangs && ctx.attempt === 1) await untilAborted(ctx);
    if (ctx.attempt <= failures) throw new Error('not yet');
    await pause(ms);
    effect('end', ctx);
    return mix(value, k);
  });
  runtime.registerActivity('refuse', (ctx) => {
    effect('begin', ctx);
    throw new NonRetryableError('no');
  });
  runtime.registerActivity('hold', async (ctx) => {
    effect('begin', ctx);
    await untilAborted(ctx);
  });
  runtime.registerActivity('gate', (ctx, event) => effect(event, ctx));
  runtime.registerActivity('clean up', (ctx) => recorded(ctx, () => null));

  runtime.registerOrchestration('program', function* (ctx, input) {
    if (input.program.ending !== 'Cancelled') return yield* execute(ctx, input);
    try {
      return yield* execute(ctx, input);
    } finally {
      // However the instance is cut off, it cleans up what it has begun.
      yield ctx.uncancellable(function* () {
        yield ctx.scheduleActivity('clean up', null, { retry: RETRY });
      });
    }
  });
}
