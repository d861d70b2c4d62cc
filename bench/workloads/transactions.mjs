// Transactional steps in the user's database: the one of the store on Postgres, and a file beside the store on SQLite.

import { assertCompleted, runAll, withRuntime } from '../lib/session.mjs';
import { intervals, median } from '../lib/stats.mjs';

/** Steps of each kind before the next kind has its turn. */
const STEPS_ALTERNATED = 200;
const ALTERNATIONS = 5;
/** Alternations before them that are not measured. */
const WARM = 5;
const PARALLEL = 100;
const STEPS_EACH = 20;
/** Connections of the pool, for Perdure and for the bare transactions. */
const CONNECTIONS = 20;
const REPEAT = 5;

export const transactions = {
  name: 'transactions',
  what: `transactional steps that insert one row, ${CONNECTIONS} connections`,
  stores: ['sqlite', 'postgres'],
  figures: [
    {
      name: 'transactions one by one',
      unit: 'ms',
      better: 'lower',
      atLeast: 1.25,
      note: ({ bare, turn }) =>
        'Floor: an activity that runs a bare transaction and keeps no row of the step. A bare transaction after ' +
        `another one takes ${bare.toFixed(3)} ms, a turn after another one ${turn.toFixed(3)} ms.`,
    },
    {
      name: 'transactions in parallel',
      unit: 'steps/s',
      better: 'higher',
      note: () => `${PARALLEL} instances × ${STEPS_EACH} steps. Floor: as many bare transactions.`,
    },
  ],

  async round(round) {
    const place = round.place();
    const file = round.file('user.db');
    const { bare, turn, plain, step } = await round.child('oneByOne', { place, file });
    const rate = await round.child('bare', { place, file });
    const own = await round.child('measure', { place, file });
    const peer = await round.peer({
      steps: WARM * STEPS_ALTERNATED,
      parallel: PARALLEL,
      stepsEach: STEPS_EACH,
      connections: CONNECTIONS,
      repeat: REPEAT,
    });
    return {
      'transactions one by one': { floor: plain, perdure: step, peer: peer?.p50, notes: { bare, turn } },
      'transactions in parallel': { floor: rate, perdure: own, peer: peer?.rate, notes: {} },
    };
  },

  roles: {
    /**
     * Bare transactions, turns, both together and steps, in alternation, because the speed of a disk changes from
     * second to second. Both together cost more than their sum: each syncs another file than the last one did.
     */
    oneByOne: async ({ place, file }) => {
      const user = await userDatabase(place, file);
      const clock = stopwatch();
      const step = user.step((n) => {
        clock.stop();
        return n + 1;
      });
      const turn = async (_ctx, n) => {
        clock.stop();
        return n + 1;
      };
      const plain = async (_ctx, n) => {
        await user.bare(n);
        return turn(_ctx, n);
      };
      const register = (runtime) => {
        runtime.register(step);
        runtime.registerActivity('turn', turn);
        runtime.registerActivity('plain', plain);
        runtime.registerOrchestration('chain', chain);
      };
      const result = await withRuntime(place, register, async (client) => {
        const ways = {
          bare: async () => {
            for (let n = 0; n < STEPS_ALTERNATED; n += 1) {
              await user.bare(n);
              clock.stop();
            }
          },
          turn: (id) => completed(client, id, { name: 'turn', count: STEPS_ALTERNATED }),
          plain: (id) => completed(client, id, { name: 'plain', count: STEPS_ALTERNATED }),
          step: (id) => completed(client, id, { name: 'step', count: STEPS_ALTERNATED }),
        };
        const times = { bare: [], turn: [], plain: [], step: [] };
        for (let n = 0; n < WARM + ALTERNATIONS; n += 1) {
          for (const [name, run] of Object.entries(ways)) {
            clock.begin();
            await run(`${name}-${n}`);
            if (n >= WARM) times[name].push(...intervals(clock.times));
          }
        }
        return Object.fromEntries(Object.entries(times).map(([name, of]) => [name, median(of)]));
      });
      await user.close();
      return result;
    },

    bare: async ({ place, file }) => {
      const user = await userDatabase(place, file);
      const chains = async () => {
        const one = async () => {
          for (let n = 0; n < STEPS_EACH; n += 1) await user.bare(n);
        };
        await Promise.all(Array.from({ length: PARALLEL }, one));
      };
      await chains();
      const began = performance.now();
      await chains();
      const seconds = (performance.now() - began) / 1_000;
      await user.close();
      return (PARALLEL * STEPS_EACH) / seconds;
    },

    measure: async ({ place, file, repeat = REPEAT }) => {
      const user = await userDatabase(place, file);
      const step = user.step((n) => n + 1);
      const register = (runtime) => {
        runtime.register(step);
        runtime.registerOrchestration('chain', chain);
      };
      const result = await withRuntime(place, register, async (client) => {
        const seconds = [];
        for (let n = 0; n <= repeat; n += 1)
          seconds.push(
            await runAll(client, `parallel-${n}`, PARALLEL, 'chain', { name: 'step', count: STEPS_EACH }, STEPS_EACH),
          );
        return (PARALLEL * STEPS_EACH) / median(seconds.slice(1));
      });
      await user.close();
      return result;
    },
  },
  profile: { role: 'measure', job: { repeat: 30 } },
};

function* chain(ctx, { name, count }) {
  let n = 0;
  for (let done = 0; done < count; done += 1) n = yield* ctx.scheduleActivity(name, n);
  return n;
}

async function completed(client, id, input) {
  await client.startOrchestration(id, 'chain', input);
  assertCompleted(await client.waitForOrchestration(id), input.count);
}

function stopwatch() {
  return {
    times: [],
    begin() {
      this.times = [];
    },
    stop() {
      this.times.push(performance.now());
    },
  };
}

/** The user's database of a place: bare transactions, and the activity whose function runs within one. */
async function userDatabase(place, file) {
  if (place.store === 'sqlite') return onSqlite(file);
  const { default: pg } = await import('pg');
  const { pgDatasource } = await import('../../dist/datasource/pg.js');
  const pool = new pg.Pool({
    connectionString: place.url,
    max: CONNECTIONS,
    options: `-c search_path=${place.schema}`,
  });
  await pool.query(`create schema if not exists ${place.schema}; create table if not exists rows (n bigint)`);
  const bank = pgDatasource(pool);
  await bank.install();
  return {
    async bare(n) {
      const client = await pool.connect();
      await client.query('begin');
      await client.query('insert into rows values ($1)', [n]);
      await client.query('commit');
      client.release();
    },
    step: (next) =>
      bank.activity('step', async (tx, n) => {
        await tx.query('insert into rows values ($1)', [n]);
        return next(n);
      }),
    close: () => pool.end(),
  };
}

async function onSqlite(file) {
  const { default: Database } = await import('better-sqlite3');
  const { betterSqlite3Datasource } = await import('../../dist/datasource/better-sqlite3.js');
  const database = new Database(file);
  database.pragma('journal_mode = wal');
  database.pragma('synchronous = full');
  database.exec('create table if not exists rows (n integer)');
  const bank = betterSqlite3Datasource(database);
  await bank.install();
  const bare = database.transaction((n) => database.prepare('insert into rows values (?)').run(n));
  return {
    bare: async (n) => void bare.immediate(n),
    step: (next) =>
      bank.activity('step', (tx, n) => {
        tx.prepare('insert into rows values (?)').run(n);
        return next(n);
      }),
    close: async () => void database.close(),
  };
}
