// Transactional steps in the user's database: the one of the store on Postgres, and a file beside the store on SQLite.

import { assertCompleted, runAll, withRuntime } from '../lib/session.mjs';
import { intervals, median } from '../lib/stats.mjs';
import { stepTimes } from './latency.mjs';

const STEPS = 1_000;
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
      note: ({ bare, turn }) => `Floor: a bare transaction (${bare.toFixed(3)} ms) and a turn (${turn.toFixed(3)} ms).`,
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
    const { bare, rate } = await round.child('bare', { place, file });
    const turn = await round.child('turn', { place: round.place() });
    const own = await round.child('measure', { place, file });
    const peer = await round.peer({
      steps: STEPS,
      parallel: PARALLEL,
      stepsEach: STEPS_EACH,
      connections: CONNECTIONS,
      repeat: REPEAT,
    });
    return {
      'transactions one by one': { floor: bare + turn, perdure: own.p50, peer: peer?.p50, notes: { bare, turn } },
      'transactions in parallel': { floor: rate, perdure: own.rate, peer: peer?.rate, notes: {} },
    };
  },

  roles: {
    bare: async ({ place, file }) => {
      const user = await userDatabase(place, file);
      const times = [];
      for (let n = 0; n < 2 * STEPS; n += 1) {
        await user.bare(n);
        times.push(performance.now());
      }
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
      return { bare: median(intervals(times).slice(STEPS)), rate: (PARALLEL * STEPS_EACH) / seconds };
    },

    turn: async ({ place }) => median(await stepTimes(place, STEPS, STEPS)),

    measure: async ({ place, file, repeat = REPEAT }) => {
      const user = await userDatabase(place, file);
      let times = [];
      const step = user.step((n) => {
        times.push(performance.now());
        return n + 1;
      });
      const register = (runtime) => {
        runtime.register(step);
        runtime.registerOrchestration('chain', function* (ctx, count) {
          let n = 0;
          for (let done = 0; done < count; done += 1) n = yield* ctx.call(step, n);
          return n;
        });
      };
      const result = await withRuntime(place, register, async (client) => {
        for (const id of ['warm', 'run']) {
          times = [];
          await client.startOrchestration(id, 'chain', STEPS);
          assertCompleted(await client.waitForOrchestration(id), STEPS);
        }
        const p50 = median(intervals(times));
        const seconds = [];
        for (let n = 0; n <= repeat; n += 1)
          seconds.push(await runAll(client, `parallel-${n}`, PARALLEL, 'chain', STEPS_EACH, STEPS_EACH));
        return { p50, rate: (PARALLEL * STEPS_EACH) / median(seconds.slice(1)) };
      });
      await user.close();
      return result;
    },
  },
  profile: { role: 'measure', job: { repeat: 30 } },
};

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
