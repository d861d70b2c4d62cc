// The report, from three independent records: the histories in the database, the log of activity runs, and the ledger.

import { join } from 'node:path';
import { readEffects } from './effects.mjs';
import { loadFlights } from './flights.mjs';
import { readLedger } from './ledger.mjs';

/** The events that an orchestration waits for, and that must not be lost. Each is one step. */
const STEPS = new Set(['ActivityCompleted', 'ActivityFailed', 'TimerFired', 'EventReceived', 'QueueReceived']);

/** Prints the table and the checks. Returns true if all checks pass. */
export async function report({ client, folder, end, seconds, isResumed }, out) {
  const history = await client.getHistory(end.id);
  const { days } = history[0].payload;
  const flights = await loadFlights(days);
  const histories = new Map([[end.id, history]]);
  for (const { id } of flights) histories.set(id, await client.getHistory(id).catch(() => []));
  const events = [...histories.values()].flat();
  const steps = events.filter(({ kind }) => STEPS.has(kind)).length;
  const approvals = events.filter(({ kind }) => kind === 'EventReceived').length;
  const known = events.filter(({ kind, payload }) => kind === 'ActivityCompleted' && payload?.isNew === false).length;
  const effects = runsOf(readEffects(join(folder, 'effects.jsonl')));
  const ledger = await readLedger(join(folder, 'ledger.jsonl'));

  const rate = isResumed ? '-' : Math.round(steps / seconds);
  table(out, [
    ['instances', histories.size, `${flights.length} flights and their parent`],
    ['steps', steps, 'activity results, timers, events and messages'],
    ['time', `${seconds.toFixed(1)} s`, 'from the first worker to the last result, kills included'],
    ['steps per second', rate, 'the services of the demo are slow on purpose; `npm run bench` measures speed'],
    ['approvals', approvals, 'by an event from another process'],
    ['retries', effects.failures.size, `after ${summary(effects.failures.values())}`],
    [
      'runs repeated',
      effects.repeated,
      `because of a kill: ${effects.cut} cut short, ${effects.lost} done but not yet recorded`,
    ],
    [
      'ledger entries',
      ledger.length,
      `${dollars(sum(ledger))}; ${known} would be there twice without the idempotency key`,
    ],
  ]);

  const [booked, counted] = [sum(ledger), end.output?.amount];
  return [
    check(out, 'the parent has completed', end.status === 'Completed', end.error?.stack ?? end.status),
    exactlyOnce(out, flights, ledger),
    check(
      out,
      'the ledger adds up to what the parent counted',
      booked === counted,
      `${dollars(booked)}, not ${dollars(counted)}`,
    ),
    neverAgain(out, histories, effects),
  ].every(Boolean);
}

/** Returns the states of the unsettled flights, for a job that makes no progress. */
export async function unsettled(client, parent) {
  const [
    {
      payload: { days },
    },
  ] = await client.getHistory(parent);
  const lines = [];
  for (const { id } of await loadFlights(days)) {
    const found = await client.getStatus(id);
    if (found === null || found.status === 'Completed') continue;
    lines.push(
      [`${id}: ${found.status}`, JSON.stringify(found.customStatus), found.error?.message].filter(Boolean).join(', '),
    );
  }
  return lines;
}

/** Checks that the ledger has one entry for every flight, and no others. */
function exactlyOnce(out, flights, ledger) {
  const counts = new Map(flights.map(({ id }) => [id, 0]));
  for (const { flight } of ledger) counts.set(flight, (counts.get(flight) ?? 0) + 1);
  const wrong = [...counts].filter(([, count]) => count !== 1);
  const list = wrong
    .slice(0, 5)
    .map(([id, count]) => `${id} ${count} times`)
    .join(', ');
  const what = `each of the ${flights.length} flights is in the ledger exactly once`;
  return check(out, what, wrong.length === 0, `${wrong.length} do not: ${list}`);
}

/** Checks that no activity started again after its result was recorded. */
function neverAgain(out, histories, { began }) {
  const again = [];
  const calls = new Map([...began].map(([key, time]) => [callOf(key), time]));
  for (const [id, history] of histories) {
    for (const { kind, refId, time } of history) {
      if (kind !== 'ActivityCompleted') continue;
      const call = `${id}/1/${refId}`;
      if (!calls.has(call)) again.push(`${call} (its run is missing)`);
      else if (calls.get(call) > time.getTime()) again.push(call);
    }
  }
  const list = again.slice(0, 5).join(', ');
  return check(out, 'no step whose result was recorded ran again', again.length === 0, `${again.length} did: ${list}`);
}

/** Returns the call of an idempotency key: instance / execution / event that scheduled the activity. */
function callOf(key) {
  return key.split('/').toSpliced(-3, 1).join('/');
}

/** Sums up the notes of effects.mjs. */
function runsOf(notes) {
  const began = new Map(); // by key: the start of its last run
  const failures = new Map(); // by key and attempt: name of the error
  const runs = new Map(); // by key and attempt: the ends of its runs
  for (const { time, key, attempt, what, error } of notes) {
    const id = `${key} ${attempt}`;
    if (what === 'began') {
      began.set(key, time);
      runs.set(id, [...(runs.get(id) ?? []), 'cut']);
    } else {
      runs.get(id)[runs.get(id).length - 1] = what;
    }
    if (what === 'failed') failures.set(id, error);
  }
  // Only the last run of an attempt counts. Earlier runs were in vain.
  const inVain = [...runs.values()].flatMap((ends) => ends.slice(0, -1));
  const cut = inVain.filter((end) => end === 'cut').length;
  return { began, failures, repeated: inVain.length, cut, lost: inVain.length - cut };
}

function table(out, rows) {
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => String(row[column]).length)));
  for (const [name, value, remark] of rows) {
    out.line(`  ${name.padEnd(widths[0])}  ${String(value).padStart(widths[1])}  ${remark}`);
  }
  out.line();
}

function check(out, what, isTrue, otherwise) {
  out.line(isTrue ? `  ok      ${what}` : `  FAILED  ${what}: ${otherwise}`);
  return isTrue;
}

/** Returns a list such as `TypeError 12, Error 3`, most frequent first. */
function summary(names) {
  const counts = new Map();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts]
    .sort((a, b) => b[1] - a[1])
    .map(([name, count]) => `${name} ${count}`)
    .join(', ');
}

function sum(ledger) {
  return ledger.reduce((total, { amount }) => total + amount, 0);
}

function dollars(amount) {
  return `$${amount?.toLocaleString('en-US')}`;
}
