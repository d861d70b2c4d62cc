// Streams: entries that an activity writes, and the time until a reader in another process has one.

import { assertIs, withRuntime } from '../lib/session.mjs';
import { median, quantile } from '../lib/stats.mjs';
import { openProvider } from '../lib/stores.mjs';

const ENTRIES = 200_000;
/** Entries that are written one at a time, after a pause. */
const SINGLES = 100;
const PAUSE_MS = 50;
/** A token of a language model. */
const TOKEN = ' token';

export const streams = {
  name: 'streams',
  what:
    `stream.write of ${ENTRIES} entries by one activity until flush(), and ${SINGLES} entries, one each ` +
    `${PAUSE_MS} ms, from write to a live reader in another process, p50`,
  stores: ['sqlite', 'postgres'],
  figures: [
    {
      name: 'entries of one activity',
      unit: 'per s',
      better: 'higher',
      of: 'perdure',
      atLeast: 50_000,
      note: ({ read }) => `Read back by another client: ${Math.round(read)} per s.`,
    },
    {
      name: 'entry to reader',
      unit: 'ms',
      better: 'lower',
      of: 'perdure',
      atLeast: 30,
      note: ({ p99, first }) => `p99 ${p99.toFixed(1)} ms; the first entry ${first.toFixed(1)} ms.`,
    },
  ],

  async round(round) {
    const { perSecond, read } = await round.child('measure', { place: round.place() });
    const place = round.place();
    const [times] = await round.children('apart', [
      { place, part: 'reader' },
      { place, part: 'worker' },
    ]);
    const peer = await round.peer({ singles: SINGLES / 10, pauseMs: PAUSE_MS, entries: ENTRIES / 200, token: TOKEN });
    return {
      'entries of one activity': { perdure: perSecond, peer: peer?.perSecond, notes: { read } },
      'entry to reader': {
        perdure: median(times),
        peer: peer && median(peer.times),
        notes: { p99: quantile(times, 0.99), first: times[0] },
      },
    };
  },

  roles: {
    measure: ({ place, entries = ENTRIES }) =>
      withRuntime(place, register, async (client) => {
        await run(client, 'warm', entries / 10);
        const perSecond = await run(client, 'run', entries);
        const began = performance.now();
        let count = 0;
        for await (const { index } of client.readStream('run', 'tokens')) assertIs(index, count++);
        assertIs(count, entries);
        return { perSecond, read: (entries * 1_000) / (performance.now() - began) };
      }),

    apart: async ({ place, part }, meet) => {
      if (part === 'worker') {
        return withRuntime(place, register, async (client) => {
          await client.startOrchestration('singles', 'one by one');
          await meet();
          await client.raiseEvent('singles', 'go');
          await client.waitForOrchestration('singles');
          await meet();
          return null;
        });
      }
      const { Client } = await import('../../dist/index.js');
      await meet();
      const provider = await openProvider(place);
      const client = new Client(provider);
      const times = [];
      for await (const { value } of client.readStream('singles', 'tokens')) times.push(now() - value);
      assertIs(times.length, SINGLES);
      await meet();
      await provider.close();
      return times;
    },
  },
  profile: { role: 'measure', job: { entries: 10 * ENTRIES } },
};

/** Returns the time of the clock that all processes of the machine share, ms. */
function now() {
  return Number(process.hrtime.bigint()) / 1e6;
}

function register(runtime) {
  runtime.registerActivity('writes', async (ctx, entries) => {
    const tokens = ctx.stream('tokens');
    const began = performance.now();
    for (let n = 0; n < entries; n += 1) {
      tokens.write(TOKEN);
      // As a model does, the activity lets its thread go from time to time.
      if (n % 1_000 === 999) await new Promise(setImmediate);
    }
    await tokens.flush();
    return (entries * 1_000) / (performance.now() - began);
  });
  runtime.registerActivity('singles', async (ctx) => {
    for (let n = 0; n < SINGLES; n += 1) {
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      ctx.stream('tokens').write(now());
    }
  });
  runtime.registerOrchestration('many', function* (ctx, entries) {
    return yield* ctx.scheduleActivity('writes', entries);
  });
  runtime.registerOrchestration('one by one', function* (ctx) {
    yield* ctx.waitForEvent('go');
    yield* ctx.scheduleActivity('singles');
  });
}

async function run(client, id, entries) {
  await client.startOrchestration(id, 'many', entries);
  const { output } = await client.waitForOrchestration(id);
  return output;
}
