// The demo: a worker settles the flights of some days. The demo kills the worker twice, and shows that nothing was lost
// and nothing was done twice.
//
//   npm start -- [--days 14] [--kills 2] [--resume <folder>]
//
// This process starts, kills and watches the worker, and plays the person who approves refunds. It reaches the
// orchestrations only through a Client on the same SQLite file, which the two processes share.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Client, SqliteProvider } from 'perdure';
import { settleDays } from './orchestrations.mjs';
import { Progress } from './progress.mjs';
import { report, unsettled } from './report.mjs';

const PARENT = 'settle-days';
const REFUND_APPROVED = 10_000; // dollars; the approver reduces a larger refund to this
const STALLED_MS = 30_000;

const progress = new Progress(process.stdout);
/** The worker process, or null while no worker should run. */
let worker = null;
let workers = 0;
let isInterrupted = false;

const { days, kills, resume } = options();
const root = fileURLToPath(new URL('../../', import.meta.url));
const time = new Date()
  .toISOString()
  .slice(0, 19)
  .replaceAll(/[^0-9]+/g, '-');
const folder = resume ?? join(root, '.perdure', `demo-${time}`);
const shownFolder = relative(process.cwd(), folder);
if (resume !== undefined && !existsSync(join(folder, 'demo.db'))) fail(`there is no demo to resume in ${folder}`);
if (resume === undefined) {
  mkdirSync(join(root, '.perdure'), { recursive: true });
  mkdirSync(folder);
}

process.once('SIGINT', interrupted);
process.once('SIGTERM', interrupted);

const provider = await SqliteProvider.open(join(folder, 'demo.db'));
const client = new Client(provider);
await client.start(settleDays, { days, atOnce: 100 }, { id: PARENT, onConflict: 'return' });

const job =
  resume === undefined
    ? `Settling the flights of ${days} days, one orchestration each.`
    : 'Continuing where it stopped.';
progress.line(`${job} The worker will be killed ${times(kills)}.\n`);
const begin = performance.now();
await startWorker();
const end = await follow();
const seconds = (performance.now() - begin) / 1000;
progress.end();
progress.line();
await stopWorker();

const isSound = await report({ client, folder, end, seconds, isResumed: resume !== undefined }, progress);
await provider.close();

progress.line(`
The database is ${join(shownFolder, 'demo.db')}, with ledger.jsonl, effects.jsonl and worker.log beside it. Try next:

  node examples/demo/history.mjs ${shownFolder}
      the history of a flight, event by event
  npm start -- --kills 10
      ten kills
  npm start, and Ctrl-C in the middle
      everything stops, and the command to continue is printed
`);
process.exitCode = isSound ? 0 : 1;

/** Watches the job until it ends. Approves refunds and kills workers meanwhile. */
async function follow() {
  const approved = new Set();
  let killAt = null;
  let killed = 0;
  let before = { settled: -1, time: performance.now() };
  for (;;) {
    const status = await client.getStatus(PARENT);
    if (isInterrupted) return new Promise(() => {}); // interrupted() ends the process

    // There is no custom status before the parent's first turn.
    const { total = 0, started = 0, settled = 0, waiting = [] } = status.customStatus ?? {};
    const seconds = (performance.now() - begin) / 1000;
    progress.show({ total, settled, started, waiting: waiting.length, workers, seconds });
    if (status.completedAt !== undefined || status.status === 'Suspended') return status;

    if (settled !== before.settled) before = { settled, time: performance.now() };
    if (performance.now() - before.time > STALLED_MS) await stalled();

    for (const id of waiting) {
      if (approved.has(id)) continue;
      approved.add(id);
      approve(id).catch((error) => fail(error.stack));
    }

    if (total > 0) killAt ??= spread(kills, settled, total);
    if (killAt !== null && killed < kills && settled >= killAt[killed]) {
      killed += 1;
      await killWorker(settled);
      await startWorker();
    }
    await delay(50);
  }
}

/** Returns `n` numbers that divide the range into equal parts. */
function spread(n, from, to) {
  return Array.from({ length: n }, (_, i) => from + Math.round(((to - from) * (i + 1)) / (n + 1)));
}

/** A person looks at a flight's status and decides. */
async function approve(id) {
  await delay(300);
  const { customStatus } = await client.getStatus(id);
  // After a crash the question is repeated, although it was decided before.
  if (customStatus.stage !== 'awaiting approval') return;
  await client.raiseEvent(id, 'decision', { refund: Math.min(customStatus.refund, REFUND_APPROVED), by: 'ada' });
}

async function startWorker() {
  workers += 1;
  const log = openSync(join(folder, 'worker.log'), 'a');
  const child = fork(new URL('./worker.mjs', import.meta.url), [folder], { stdio: ['ignore', log, log, 'ipc'] });
  closeSync(log);
  worker = child;
  child.once('exit', (code, signal) => {
    if (worker !== child) return; // a planned end
    const log = readFileSync(join(folder, 'worker.log'), 'utf8').trim().split('\n').slice(-15).join('\n');
    fail(`the worker ended by itself (${signal ?? `exit code ${code}`}). The end of its log:\n\n${log}`);
  });
  await once(child, 'message');
  progress.line(`worker ${workers} (pid ${child.pid}) is at work`);
}

async function killWorker(settled) {
  const child = worker;
  worker = null;
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
  progress.line(`kill -9 ${child.pid} after ${settled} flights`);
}

/** Lets the worker shut down, within a few seconds. */
async function stopWorker() {
  const child = worker;
  worker = null;
  if (child === null || child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  if (child.connected) child.disconnect();
  const timer = setTimeout(() => child.kill('SIGKILL'), 8000);
  await gone;
  clearTimeout(timer);
}

async function interrupted() {
  isInterrupted = true;
  progress.end();
  // A second Ctrl-C ends the process at once.
  process.once('SIGINT', () => process.exit(130));
  await stopWorker();
  progress.line(`Nothing is lost. Continue with: npm start -- --resume ${shownFolder}`);
  process.exit(130);
}

/** Prints the state of the job, and gives up. */
async function stalled() {
  const { status, customStatus } = await client.getStatus(PARENT);
  const flights = await unsettled(client, PARENT);
  fail(
    [
      `nothing was settled for ${STALLED_MS / 1000} s.`,
      `The parent is ${status}, with custom status ${JSON.stringify(customStatus)}.`,
      `${flights.length} flights were started and have not ended${flights.length > 0 ? ', such as' : ''}`,
      ...flights.slice(0, 10),
    ].join('\n  '),
  );
}

function fail(message) {
  const child = worker;
  worker = null;
  child?.kill('SIGKILL');
  console.error(`\nThe demo has failed: ${message}`);
  process.exit(1);
}

function options() {
  try {
    const text = (value) => ({ type: 'string', default: value });
    const { values } = parseArgs({ options: { days: text('14'), kills: text('2'), resume: text(undefined) } });
    const { days, kills, resume } = values;
    return { days: whole(days, '--days', 1, 90), kills: whole(kills, '--kills', 0, 100), resume };
  } catch (error) {
    console.error(`${error.message}\nUsage: npm start -- [--days 14] [--kills 2] [--resume <folder>]`);
    process.exit(2);
  }
}

function whole(text, name, min, max) {
  const value = Number(text);
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw new Error(`${name} must be a whole number from ${min} to ${max}, got '${text}'`);
}

function times(n) {
  return ['never', 'once', 'twice'][n] ?? `${n} times`;
}
