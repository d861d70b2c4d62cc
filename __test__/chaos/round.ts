// One round: a new store, programs on it, faults one after the other, and the checks at the end.

import { Client } from 'perdure';

import { repeatedWithoutReason } from '../crash/checker.ts';
import { type Effect, readEffects } from '../support/effects.ts';
import { isIntact } from '../support/rows.ts';
import { groupBy, leftViolations, rowViolations } from '../support/violations.ts';
import { openStore } from '../support/worker-parts.mjs';
import { absencesOf, lateBegins } from './absences.ts';
import { Arena, NOTE, type Promotion, type Struck, type Tally } from './arena.ts';
import { type ClientEntry, readClientLog } from './client-log.ts';
import { Dice } from './dice.ts';
import { evidenceOf } from './evidence.ts';
import type { Fault } from './faults/index.ts';
import { keyAt, overGate } from './gate.ts';
import { begunAgain, begunTooSoon, changed, untrue } from './looks.ts';
import { instancesOf } from './model.ts';
import { judge, type Outcome } from './outcomes.ts';
import { idOf, rootOf } from './programs.ts';
import { type Ground, makeSite, PASSWORD, type ProviderName } from './sites.ts';

export interface RoundOptions {
  readonly provider: ProviderName;
  readonly ground: Ground;
  /** Decides the programs, and the details and times of the faults. */
  readonly seed: number;
  /** The faults, in the order in which they strike. */
  readonly faults: readonly Fault[];
  readonly workers: number;
  readonly isShort: boolean;
}

/** Violations that a round found, by kind. All lists must be empty. */
export interface Violations {
  /** Acknowledgements to a client that turned out untrue (S1, S2). */
  readonly lost: readonly string[];
  /** Programs that have not ended (S20, L1). */
  readonly stuck: readonly string[];
  /** Steps that began again although they were finished (S5). */
  readonly repeated: readonly string[];
  /** All other violations. */
  readonly other: readonly string[];
}

export interface RoundResult {
  readonly options: RoundOptions;
  readonly tally: Tally;
  readonly struck: readonly Struck[];
  readonly promotions: readonly Promotion[];
  readonly violations: Violations;
  /** Time from the last fault until all programs had ended, ms. */
  readonly settledMs: number;
}

export async function playRound(options: RoundOptions): Promise<RoundResult> {
  const site = await makeSite(options.provider, options.ground, options.workers);
  const arena = new Arena(site, options);
  try {
    const settledMs = await play(arena, options);
    return {
      options,
      tally: arena.tally,
      struck: arena.struck,
      promotions: arena.promotions,
      violations: await check(arena),
      settledMs,
    };
  } finally {
    await arena.close();
  }
}

/** Returns the time from the last fault until all programs had ended, ms. */
async function play(arena: Arena, { faults, seed, workers }: RoundOptions): Promise<number> {
  const dice = new Dice(seed, -1);
  let lastFault = Date.now();
  try {
    await arena.open(workers);
    for (const fault of faults) {
      await arena.moment(dice);
      const before = Date.now();
      await fault.strike(arena, dice);
      lastFault = Date.now();
      arena.struck.push({ fault: fault.name, ms: lastFault - before });
      arena.look();
    }
    await arena.moment(dice);
    await arena.finish();
    const settledMs = Date.now() - lastFault;
    await arena.rest();
    for (const worker of arena.workers) await arena.end(worker);
    arena.look();
    return settledMs;
  } catch (error) {
    // The state that was reached is still worth a snapshot.
    arena.complaints.push((error as Error).stack ?? String(error));
    try {
      arena.look();
    } catch (again) {
      arena.complaints.push(`the store cannot be looked at: ${String(again)}`);
    }
    return Date.now() - lastFault;
  }
}

async function check(arena: Arena): Promise<Violations> {
  const { looks, site } = arena;
  const told = readClientLog(arena.clientLog);
  const effects = readEffects(arena.effectLog);
  const late = lateBegins(effects);
  const end = looks.at(-1)?.rows;
  const violations = {
    lost: untrue(looks, told, idOf),
    stuck: [] as string[],
    repeated: begunAgain(looks, effects, late),
    other: [
      ...arena.complaints,
      ...looks.flatMap(({ rows }) => rowViolations(rows)),
      ...changed(looks),
      ...begunTooSoon(looks, effects, arena.cuts),
      ...repeatedWithoutReason(
        effects.filter((effect) => !late.has(effect)),
        absencesOf(effects, arena.absences),
      ),
      ...overGate(effects, (id) => keyAt(Number(id.slice(1))), arena.cuts),
      ...(end === undefined ? ['the store was never looked at'] : leftViolations(end)),
    ],
  };
  if (!arena.isNatural) violations.other.push('the prototypes of objects or arrays changed');
  for (const canary of [PASSWORD, NOTE])
    if (arena.stderr.includes(canary)) violations.other.push(`an error or a log says '${canary}'`);
  const programs = groupBy(told, ({ program }) => program);
  arena.count('programs', programs.size);
  try {
    if (!isIntact(site.address)) violations.other.push('the file is not sound');
    const outcomes = await outcomesOf(arena, [...programs.keys()]);
    violations.other.push(...(await takenSlots(arena)));
    for (const [program, entries] of programs) {
      const verdict = judge(rootOf(arena.seed, program), entries, (id) => outcomes.get(id));
      violations.lost.push(...verdict.lost);
      violations.stuck.push(
        ...verdict.stuck.map(({ id, text }) => (end === undefined ? text : `${text}\n${evidenceOf(id, end, effects)}`)),
      );
      violations.other.push(...verdict.wrong);
      arena.count('finished', verdict.stuck.length === 0 ? 1 : 0);
    }
  } catch (error) {
    violations.other.push(`the store cannot be read: ${String(error)}`);
  }
  countAll(arena, effects, told);
  // Many snapshots find the same violation.
  return Object.fromEntries(
    Object.entries(violations).map(([name, found]) => [name, [...new Set(found)]]),
  ) as unknown as Violations;
}

function countAll(arena: Arena, effects: readonly Effect[], told: readonly ClientEntry[]): void {
  const end = arena.looks.at(-1)?.rows;
  const begins = effects.filter(({ event }) => event === 'begin');
  const asked = told.filter(({ action }) => action !== 'end');
  arena.count('instances', end?.instances.length);
  arena.count('programs in a queue', new Set(effects.flatMap(({ event, id }) => (event === 'enter' ? [id] : []))).size);
  arena.count('events', end?.history.length);
  arena.count('attempts', begins.length);
  arena.count(
    'attempts run again',
    begins.length - new Set(begins.map(({ key, attempt }) => `${key} ${attempt}`)).size,
  );
  arena.count('acknowledged calls', asked.filter(({ phase }) => phase === 'acknowledged').length);
  arena.count('calls with unknown outcome', asked.filter(({ phase }) => phase === 'unknown').length);
  arena.count('stale writes rejected', arena.sum('fenced'));
  arena.count('leases lost', effects.filter(({ event }) => event === 'lost').length);
  arena.count('takeovers', arena.sum('takeovers'));
  arena.count('writes tried again', arena.sum('commitRetries'));
}

/** Returns the queues in which anything is left, as sentences. */
async function takenSlots(arena: Arena): Promise<string[]> {
  const provider = await openStore(arena.site.address);
  try {
    return (await new Client(provider).queues.list()).flatMap(({ name, waiting, delayed, running }) =>
      waiting + delayed + running === 0
        ? []
        : [`in the queue '${name}' ${waiting} wait, ${delayed} are delayed and ${running} have slots`],
    );
  } finally {
    await provider.close();
  }
}

/** Returns the results of all instances, as seen by a new client. */
async function outcomesOf(arena: Arena, programs: readonly number[]): Promise<Map<string, Outcome>> {
  const provider = await openStore(arena.site.address);
  try {
    const client = new Client(provider);
    const found = new Map<string, Outcome>();
    for (const { id } of programs.flatMap((program) => instancesOf(rootOf(arena.seed, program)))) {
      const status = await client.getStatus(id);
      if (status !== null) found.set(id, status);
    }
    return found;
  } finally {
    await provider.close();
  }
}
