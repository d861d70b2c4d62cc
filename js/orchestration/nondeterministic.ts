// Functions whose result differs in a replay, each with its remedy: the facts that the determinism guard shares with
// the rules of eslint-plugin-perdure. Data alone, because the plugin is bundled with it.

const CLOCK = 'Date.now() or performance.now()';
const RANDOM = 'ctx.random() or ctx.randomUUID()';
const TIMER = 'yield ctx.scheduleTimer(ms)';
const FIBER = 'ctx.spawn(function* () {…})';

type Remedies = Readonly<Record<string, string>>;

/** Clocks and randomness that the guard replaces by those of the instance. Without the guard they differ. */
export const REPLACED = {
  'Date.now': 'ctx.now()',
  Date: 'new Date(ctx.now())',
  'performance.now': 'ctx.now()',
  'Math.random': 'ctx.random()',
  'crypto.randomUUID': 'ctx.randomUUID()',
} as const satisfies Remedies;

/** Global functions that the guard refuses. */
export const OF_GLOBAL: Remedies = {
  setTimeout: TIMER,
  setInterval: 'a loop with yield ctx.scheduleTimer(ms)',
  setImmediate: FIBER,
  queueMicrotask: FIBER,
  fetch: "an activity: yield ctx.scheduleActivity('name', input)",
};

/** Functions of `node:crypto`, most of them also of the global. The last three are old names of `randomBytes`. */
export const OF_CRYPTO: Remedies = Object.fromEntries(
  [
    'getRandomValues',
    'randomBytes',
    'randomInt',
    'randomFill',
    'randomFillSync',
    'pseudoRandomBytes',
    'prng',
    'rng',
  ].map((key) => [key, RANDOM]),
);

/** Functions of `node:timers/promises`. */
export const OF_TIMERS: Remedies = { setTimeout: TIMER, setInterval: TIMER, setImmediate: TIMER };

/** Functions of `scheduler` in `node:timers/promises`. */
export const OF_SCHEDULER: Remedies = { wait: TIMER, yield: TIMER };

/** Functions of `process`. Node itself calls these by that name, such as when a line is written to stdout. */
export const OF_PROCESS: Remedies = { nextTick: FIBER, hrtime: CLOCK };

/** The remedy for all functions of `Temporal.Now` but `timeZoneId`. */
export const OF_TEMPORAL = CLOCK;
