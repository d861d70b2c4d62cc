// Shows where the time of a workload goes: `--profile`.
//
// Runs its role twice, many times over so that the start of the process does not count: once under V8's sampling
// profiler (`--cpu-prof`: the JavaScript thread, by function), once under Linux perf if that works (all threads, native
// code too; JavaScript is one line there).

import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

import { runChild } from './child-process.mjs';
import { Round } from './round.mjs';
import { median } from './stats.mjs';
import { MEMORY } from './stores.mjs';

const TOP = 25;
/** Samples per second of perf, of the processor's own clock, because virtual machines have no counters. */
const PERF = ['record', '--quiet', '--event', 'cpu-clock', '--freq', '2999'];

export async function profile(workload, store, directory) {
  const { role, job, before } = workload.profile;
  const folder = join(directory, `${workload.name}-${store}-profile`);
  const round = new Round(workload, store, folder);
  const prepared = async () => {
    const whole = store === MEMORY ? job : { ...job, place: round.place() };
    if (before !== undefined) await runChild(workload.name, before, whole);
    return whole;
  };
  try {
    await profiled(workload, store, role, prepared, folder);
  } finally {
    round.clean();
  }
}

async function profiled(workload, store, role, prepared, folder) {
  const options = ['--cpu-prof', `--cpu-prof-dir=${folder}`, '--cpu-prof-interval', '200'];
  const result = await runChild(workload.name, role, await prepared(), { nodeOptions: options });
  const [file] = readdirSync(folder).filter((name) => name.endsWith('.cpuprofile'));
  const { total, rows } = selfTimes(JSON.parse(readFileSync(join(folder, file), 'utf8')));
  console.log(`\n## ${workload.name} (${store}): ${JSON.stringify(result, short)}`);
  console.log(`\nThe JavaScript thread, self time by function, of ${(total / 1e6).toFixed(2)} s:\n`);
  for (const { what, us } of rows.slice(0, TOP))
    console.log(`${((us / total) * 100).toFixed(1).padStart(6)} %  ${what}`);

  const trial = spawnSync('perf', [...PERF, '--output', join(folder, 'trial'), '--', 'true'], { stdio: 'ignore' });
  if (trial.status !== 0) {
    console.log('\nNo native profile: Linux perf is not there, or may not be used.');
    return;
  }
  const data = join(folder, 'perf.data');
  await runChild(workload.name, role, await prepared(), {
    command: ['perf', ...PERF, '--output', data, '--'],
  });
  console.log('\nAll threads, native code too, share of the samples by thread and library:\n');
  console.log(report(data, ['comm', 'dso'], 15));
  console.log('\nThe same by function:\n');
  console.log(report(data, ['comm', 'dso', 'symbol'], 2 * TOP));
}

/** Shortens long lists of samples, which say nothing to a reader. */
function short(_key, value) {
  return Array.isArray(value) && value.length > 3 ? `${value.length} of them, median ${median(value)}` : value;
}

/** Self time of each function, largest first, us. */
function selfTimes({ nodes, samples, timeDeltas }) {
  const self = new Map();
  samples.forEach((id, n) => self.set(id, (self.get(id) ?? 0) + timeDeltas[n]));
  const byFunction = new Map();
  let total = 0;
  for (const { id, callFrame } of nodes) {
    const us = self.get(id) ?? 0;
    const { functionName, url, lineNumber } = callFrame;
    const place = url === '' ? '' : ` ${basename(url)}:${lineNumber + 1}`;
    const what = `${functionName || '(anonymous)'}${place}`;
    byFunction.set(what, (byFunction.get(what) ?? 0) + us);
    total += us;
  }
  const rows = [...byFunction].map(([what, us]) => ({ what, us })).sort((a, b) => b.us - a.us);
  return { total, rows };
}

/** The first lines of a report of perf, without its decoration. */
function report(data, keys, limit) {
  const form = ['--stdio', '--quiet', '--no-children', '--field-separator', '\t', '--sort', keys.join(',')];
  const words = ['report', ...form, '--input', data];
  const { stdout } = spawnSync('perf', words, { encoding: 'utf8', maxBuffer: 256 * 1024 * 1024 });
  const lines = stdout.split('\n').filter((line) => /^\s*\d/.test(line));
  return lines.slice(0, limit).map(readable).join('\n');
}

function readable(line) {
  const [share, comm, dso, symbol = ''] = line.split('\t').map((cell) => cell.trim());
  const library = dso.startsWith('[JIT]') ? 'JavaScript' : dso;
  const name = library === 'JavaScript' ? '' : symbol.replace(/^\[.\] /, '').slice(0, 90);
  return `${share.replace('%', '').padStart(6)} %  ${comm.padEnd(15)} ${library.padEnd(28)} ${name}`.trimEnd();
}
