// The driver alone: fibers, futures and combinators in memory, over an engine that only counts and hands deliveries
// back.

import { median } from '../lib/stats.mjs';
import { MEMORY } from '../lib/stores.mjs';

const YIELDS = 200_000;
const SPAWNS = 50_000;
const BRANCHES = 100;
const COMBINATIONS = 500;

const figure = (name, aim) => ({ name: `driver ${name}`, unit: 'ns', better: 'lower', of: 'perdure', aim });

export const driver = {
  name: 'driver',
  what:
    'in memory: ns per settled yield*, per step, per branch of all and race, per spawn + join, ' +
    'per message of a channel (with source stacks, as by default); reference: next() of a bare generator',
  stores: [MEMORY],
  figures: [
    figure('settled yield*', 1_000),
    figure('step'),
    figure('branch of all', 300),
    figure('branch of race', 400),
    figure('spawn + join', 2_000),
    figure('message', 1_000),
  ],

  async round(round) {
    const { bare, ...measured } = await round.child('measure', {});
    const figures = Object.entries(measured).map(([name, ns]) => [`driver ${name}`, { floor: bare, perdure: ns }]);
    return Object.fromEntries(figures);
  },

  roles: {
    measure: async ({ repeat = 5 }) => {
      const { Instance } = await import('../../dist/runtime/internal.js');
      const measures = {
        bare: bareNext,
        'settled yield*': () => inInstance(Instance, settledYields),
        step: () => inInstance(Instance, steps),
        'branch of all': () => inInstance(Instance, branchesOfAll),
        'branch of race': () => inInstance(Instance, branchesOfRace),
        'spawn + join': () => inInstance(Instance, spawns),
        message: () => inInstance(Instance, messages, { sourceStacks: true }),
      };
      const samples = {};
      for (const [name, measure] of Object.entries(measures)) {
        measure(); // warm
        samples[name] = median(Array.from({ length: repeat }, measure));
      }
      return samples;
    },
  },
  profile: { role: 'measure', job: { repeat: 30 } },
};

/** An engine that answers every operation, in order, when all fibers wait. */
class Echo {
  #last = 1;
  #open = [];
  #taken = 0;

  issue() {
    this.#last += 1;
    this.#open.push(this.#last);
    return { operation: this.#last, succeedsNext: false };
  }

  next() {
    if (this.#taken >= this.#open.length) return { kind: -1, isReleased: false };
    const operation = this.#open[this.#taken];
    this.#taken += 1;
    if (this.#taken === this.#open.length) {
      this.#open.length = 0;
      this.#taken = 0;
    }
    return { kind: 0, operation, value: '1', detail: 0, mailbox: null, timeMs: 0 };
  }

  ofFiber() {}
  finish() {}
}

/** Runs `code` as an orchestration, and returns its ns. */
function inInstance(Instance, code, { sourceStacks = false } = {}) {
  let result;
  const description = {
    instanceId: 'i',
    executionId: 1,
    name: 'o',
    version: '1',
    input: null,
    parentId: null,
    customStatus: null,
    timeMs: 0,
  };
  const fn = function* (ctx) {
    result = yield* code(ctx);
  };
  const limits = { payloadBytes: 2 ** 21, fibers: Number.POSITIVE_INFINITY };
  const host = { recordedOptions: () => null, sourceStacks, limits };
  const end = new Instance(new Echo(), description, { fn }, host).turn();
  if (end !== 'completed') throw new Error(`the orchestration is ${end}`);
  return result;
}

const nsPer = (count, began) => ((performance.now() - began) * 1e6) / count;

function bareNext() {
  const generator = (function* () {
    let value = 0;
    for (;;) value = yield value;
  })();
  const began = performance.now();
  for (let n = 0; n < YIELDS; n += 1) generator.next(n);
  return nsPer(YIELDS, began);
}

function* settledYields(ctx) {
  const future = ctx.scheduleActivity('a');
  yield* future;
  const began = performance.now();
  for (let n = 0; n < YIELDS; n += 1) yield* future;
  return nsPer(YIELDS, began);
}

/** Schedules activities, waits for each and gets its delivery, one by one. */
function* steps(ctx) {
  const began = performance.now();
  for (let n = 0; n < YIELDS; n += 1) yield* ctx.scheduleActivity('a');
  return nsPer(YIELDS, began);
}

function schedule(ctx) {
  return Array.from({ length: BRANCHES }, () => ctx.scheduleActivity('a'));
}

/** From the call of `all` until it has its value, with deliveries but without scheduling. */
function* branchesOfAll(ctx) {
  let ns = 0;
  for (let n = 0; n < COMBINATIONS; n += 1) {
    const branches = schedule(ctx);
    const began = performance.now();
    yield* ctx.all(branches);
    ns += nsPer(BRANCHES, began);
  }
  return ns / COMBINATIONS;
}

/** From the call of `race` until it has its value, which is one delivery, without scheduling. */
function* branchesOfRace(ctx) {
  let ns = 0;
  for (let n = 0; n < COMBINATIONS; n += 1) {
    const branches = schedule(ctx);
    const began = performance.now();
    yield* ctx.race(branches);
    ns += nsPer(BRANCHES, began);
    yield* ctx.all(branches);
  }
  return ns / COMBINATIONS;
}

function* spawns(ctx) {
  const body = function* () {
    return 1;
  };
  const began = performance.now();
  for (let n = 0; n < SPAWNS; n += 1) yield* ctx.spawn(body);
  return nsPer(SPAWNS, began);
}

/** From fiber to fiber, through a channel that holds one message. */
function* messages(ctx) {
  const channel = ctx.channel(1);
  const consumer = ctx.spawn(channel.forEach(function* () {}));
  const began = performance.now();
  for (let n = 0; n < SPAWNS; n += 1) yield* channel.send(n);
  channel.close();
  yield* consumer;
  return nsPer(SPAWNS, began);
}
