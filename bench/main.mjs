// The benchmark:
//
//   npm run bench -- [workload…] [--store sqlite|postgres|all] [--peer dbos|bullmq|graphile-worker|none] [--json file]
//                    [--runs N] [--profile] [--check] [--calm seconds] [--dir folder] [--list]
//
// A workload is a file in workloads/. On each store it is measured in rounds. In each round its floor, Perdure and the
// peer run one after the other, each in a fresh process with a fresh database file or schema. A figure is the median of
// their ratio over the rounds.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import { waitForCalm } from './lib/calm.mjs';
import { buildFloor, runOnServer } from './lib/floor.mjs';
import { machine, warnings } from './lib/machine.mjs';
import { root } from './lib/paths.mjs';
import { install } from './lib/peer.mjs';
import { profile } from './lib/profile.mjs';
import { Round } from './lib/round.mjs';
import { MEMORY, POSTGRES_URL, SCHEMA_PREFIX, STORES } from './lib/stores.mjs';
import { summarize } from './lib/summary.mjs';
import { table } from './lib/table.mjs';
import { PEERS } from './peers/index.mjs';
import { notMeasured, workloads } from './workloads/index.mjs';

/** Rounds of each workload, unless `--runs` says otherwise. */
const RUNS = 7;
const RUNS_MIN = 5;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    store: { type: 'string' },
    peer: { type: 'string' },
    json: { type: 'string' },
    runs: { type: 'string' },
    dir: { type: 'string' },
    calm: { type: 'string' },
    profile: { type: 'boolean', default: false },
    check: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
  },
});

if (values.list) {
  for (const { name, stores, what } of workloads) console.log(`${name.padEnd(10)} ${what} (${stores.join(', ')})`);
} else {
  await main();
}

async function main() {
  const unknown = positionals.filter((name) => !workloads.some((workload) => workload.name === name));
  if (unknown.length > 0) {
    fail(`There is no workload '${unknown[0]}'. There are: ${workloads.map(({ name }) => name).join(', ')}.`);
  }
  const chosen = positionals.length === 0 ? workloads : workloads.filter(({ name }) => positionals.includes(name));
  const runs = values.runs === undefined ? RUNS : Number(values.runs);
  if (!Number.isInteger(runs) || runs < 1) fail('--runs takes a whole number from 1 on.');
  if (values.store !== undefined && !['all', ...STORES].includes(values.store)) {
    fail('--store takes sqlite, postgres or all.');
  }
  const calm = Number(values.calm ?? 0);
  if (!(calm >= 0)) fail('--calm takes a number of seconds.');
  if (runs < RUNS_MIN && !values.profile) {
    console.error(`${runs} rounds: too few for figures that mean anything, which takes ${RUNS_MIN}.`);
  }

  buildFloor();
  const server = serverFor(values.store);
  const stores = storesFor(values.store, server);
  const units = chosen.flatMap((workload) =>
    workload.stores.filter((store) => stores.includes(store)).map((store) => ({ workload, store })),
  );
  if (units.length === 0) fail(`${positionals.join(', ')}: not measured on ${stores.join(', ')}.`);
  const peer = values.profile ? null : peerFor(values.peer, units);

  const parent = values.dir === undefined ? join(root, '.perdure') : asTyped(values.dir);
  mkdirSync(parent, { recursive: true });
  const directory = mkdtempSync(join(parent, 'bench-'));
  try {
    if (values.profile) {
      for (const { workload, store } of units) await profile(workload, store, directory);
    } else {
      await measure({ units, runs, calm, directory, server, peer });
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
    if (server !== null) runOnServer('drop', SCHEMA_PREFIX);
  }
}

/** The answer of the Postgres server to `ping`, or `null` if it is not asked for or does not answer. */
function serverFor(asked) {
  if (asked === 'sqlite') return null;
  try {
    return runOnServer('ping');
  } catch (error) {
    if (asked !== undefined) fail(`No Postgres at ${shown(POSTGRES_URL)}: ${error.message}`);
    console.error(`No Postgres at ${shown(POSTGRES_URL)} (PERDURE_BENCH_POSTGRES_URL): SQLite only.`);
    return null;
  }
}

function storesFor(asked, server) {
  if (STORES.includes(asked)) return [asked, MEMORY];
  return [...STORES.filter((store) => store !== 'postgres' || server !== null), MEMORY];
}

/**
 * The peer that does the workloads, too, if it is asked for, or by default if it has one of them on one of the stores.
 * Installs the peer on the way.
 */
function peerFor(asked, units) {
  if (asked === 'none') return null;
  const peer = PEERS.find(({ name }) => asked === undefined || name === asked);
  if (peer === undefined) fail(`--peer takes ${PEERS.map(({ name }) => name).join(', ')} or none.`);
  const does = ({ workload, store }) => peer.stores.includes(store) && Object.hasOwn(peer.roles, workload.name);
  if (!units.some(does)) {
    if (asked !== undefined) fail(`${peer.title} does none of these workloads on these stores.`);
    return null;
  }
  if (install()) return peer;
  if (asked !== undefined) fail(`${peer.title} could not be installed.`);
  console.error(`${peer.title} could not be installed, and is left out.`);
  return null;
}

async function measure({ units, runs, calm, directory, server, peer }) {
  const before = machine(directory, server);
  const figures = [];
  const rounds = {};
  const failed = [];
  let restless = 0;
  for (const { workload, store } of units) {
    const samples = [];
    try {
      for (let n = 1; n <= runs; n += 1) {
        progress(`${workload.name} ${store} ${n}/${runs}`);
        if (calm > 0 && !(await waitForCalm(calm))) restless += 1;
        const round = new Round(workload, store, join(directory, `${workload.name}-${store}-${n}`), { n, peer });
        samples.push(await workload.round(round));
        round.clean();
      }
    } catch (error) {
      // The other workloads are worth having, and took long.
      console.error(error);
      failed.push({ name: `${workload.name} (${store})`, why: 'failed' });
      process.exitCode = 1;
      continue;
    } finally {
      progress('');
    }
    figures.push(...summarize(workload, store, samples));
    rounds[workload.name] = { ...rounds[workload.name], [store]: samples };
  }
  const after = machine(directory, server);
  const missing = [...failed, ...notAsked(units), ...notMeasured];
  print({ figures, runs, before, after, missing, peer });
  if (restless > 0) console.log(`${restless} of ${units.length * runs} rounds began without a calm moment.`);
  if (values.json !== undefined) {
    const report = {
      runs,
      machine: { before, after },
      peer: peer?.name ?? null,
      restless,
      figures,
      notMeasured: missing,
      rounds,
    };
    writeFileSync(asTyped(values.json), `${JSON.stringify(report, null, 2)}\n`);
  }
  if (values.check && figures.some(({ verdict }) => verdict === 'below')) process.exitCode = 1;
}

function notAsked(units) {
  const asked = (name, at) => units.some(({ workload, store }) => workload.name === name && store === at);
  return workloads.flatMap(({ name, stores }) =>
    stores
      .filter((store) => !asked(name, store))
      .map((store) => ({ name: `${name} (${store})`, why: 'not asked for' })),
  );
}

function print({ figures, runs, before, after, missing, peer }) {
  console.log(table(figures, peer?.title ?? null));
  const { cpus, cpu, node, nodeEnv, load, postgres } = before;
  const server = postgres === null ? '' : `, Postgres ${postgres.version}`;
  console.log(`
Medians of ${runs} rounds, floor and Perdure in turn; ratio: the median of those of the rounds, \
with the least and the most.
Warm-up is excluded: a process first does its whole workload once unmeasured \
(not in replay, which is about a cold start).
${cpus} × ${cpu}, Node ${node}${server}, NODE_ENV ${nodeEnv ?? 'not set'}, load before ${load} and after ${after.load}.
`);
  for (const { name, store, notes } of figures) for (const note of notes) console.log(`${name} (${store}): ${note}`);
  const reasons = [...new Set(missing.map(({ why }) => why))];
  const names = (reason) => missing.filter(({ why }) => why === reason).map(({ name }) => name);
  console.log(`Not measured: ${reasons.map((reason) => `${names(reason).join(', ')} (${reason})`).join('; ')}.`);
  for (const warning of warnings(before, after)) console.log(`Warning: ${warning}`);
}

/** An address without its secrets. */
function shown(url) {
  const { host, pathname } = new URL(url);
  return `${host}${pathname}`;
}

/** Resolves a path from the folder in which the command was typed, because npm runs this file in bench/. */
function asTyped(path) {
  return resolve(process.env.INIT_CWD ?? '.', path);
}

/** Shows the current work on one line that is written over. */
function progress(text) {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
}

function fail(message) {
  console.error(message);
  process.exit(1);
}
