// The benchmark:
//
//   npm run bench -- [workload…] [--json file] [--runs N] [--profile] [--check] [--calm seconds] [--dir folder] [--list]
//
// A workload is a file in workloads/. It is measured in rounds, and in each round its floor and Perdure come one after the
// other, each in a fresh process with a fresh database file; a figure is the median over the rounds of their ratio.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import { waitForCalm } from './lib/calm.mjs';
import { buildFloor } from './lib/floor.mjs';
import { machine, warnings } from './lib/machine.mjs';
import { root } from './lib/paths.mjs';
import { profile } from './lib/profile.mjs';
import { Round } from './lib/round.mjs';
import { summarize } from './lib/summary.mjs';
import { table } from './lib/table.mjs';
import { notMeasured, workloads } from './workloads/index.mjs';

/** Rounds of each workload, unless `--runs` says otherwise. */
const RUNS = 7;
const RUNS_MIN = 5;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
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
  for (const { name, what } of workloads) console.log(`${name.padEnd(10)} ${what}`);
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
  const calm = Number(values.calm ?? 0);
  if (!(calm >= 0)) fail('--calm takes a number of seconds.');
  if (runs < RUNS_MIN && !values.profile) {
    console.error(`${runs} rounds: too few for figures that mean anything, which takes ${RUNS_MIN}.`);
  }

  const parent = values.dir === undefined ? join(root, '.perdure') : asTyped(values.dir);
  mkdirSync(parent, { recursive: true });
  const directory = mkdtempSync(join(parent, 'bench-'));
  try {
    buildFloor();
    if (values.profile) {
      for (const workload of chosen) await profile(workload, directory);
    } else {
      await measure(chosen, runs, calm, directory);
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function measure(chosen, runs, calm, directory) {
  const before = machine(directory);
  const figures = [];
  const rounds = {};
  let restless = 0;
  for (const workload of chosen) {
    const samples = [];
    for (let n = 1; n <= runs; n += 1) {
      progress(`${workload.name} ${n}/${runs}`);
      if (calm > 0 && !(await waitForCalm(calm))) restless += 1;
      const round = new Round(workload, join(directory, `${workload.name}-${n}`));
      samples.push(await workload.round(round));
      round.clean();
    }
    progress('');
    figures.push(...summarize(workload, samples));
    rounds[workload.name] = samples;
  }
  const after = machine(directory);
  const missing = [
    ...workloads.filter((workload) => !chosen.includes(workload)).map(({ name }) => ({ name, why: 'not asked for' })),
    ...notMeasured,
  ];
  print(figures, runs, before, after, missing);
  if (restless > 0) console.log(`${restless} of ${chosen.length * runs} rounds began without a calm moment.`);
  if (values.json !== undefined) {
    const report = { runs, machine: { before, after }, restless, figures, notMeasured: missing, rounds };
    writeFileSync(asTyped(values.json), `${JSON.stringify(report, null, 2)}\n`);
  }
  if (values.check && figures.some(({ verdict }) => verdict === 'below')) process.exitCode = 1;
}

function print(figures, runs, before, after, missing) {
  console.log(table(figures));
  const { cpus, cpu, node, nodeEnv, load } = before;
  console.log(`
Medians of ${runs} rounds, floor and Perdure in turn; ratio: the median of those of the rounds, with the least and the most.
Warm-up is excluded: a process first does its whole workload once unmeasured (not in replay, which is about a cold start).
${cpus} × ${cpu}, Node ${node}, NODE_ENV ${nodeEnv ?? 'not set'}, load before ${load} and after ${after.load}.
`);
  for (const figure of figures) for (const note of figure.notes) console.log(`${figure.name}: ${note}`);
  const reasons = [...new Set(missing.map(({ why }) => why))];
  const names = (reason) => missing.filter(({ why }) => why === reason).map(({ name }) => name);
  console.log(`Not measured: ${reasons.map((reason) => `${names(reason).join(', ')} (${reason})`).join('; ')}.`);
  for (const warning of warnings(before, after)) console.log(`Warning: ${warning}`);
}

/** A path as whoever typed it means it: npm runs this file in bench/. */
function asTyped(path) {
  return resolve(process.env.INIT_CWD ?? '.', path);
}

/** What is being done, on one line that is written over. */
function progress(text) {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
}

function fail(message) {
  console.error(message);
  process.exit(1);
}
