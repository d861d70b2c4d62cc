// The built-in orchestration that a schedule is.
//
// Invariants, of docs/internals/schedules.md:
//
//   Z1. Each due time is decided once, in order: its run is started, or it is skipped, buffered or missed. The cursor,
//       which is the due time that was decided last, is written with the decision.
//   Z2. The id of a run is that of its due time, so a due time has one run at most, also over several schedules.
//   Z3. Due times are computed in an activity, and recorded: a replay needs no zone, which another Node may know anew.

import { isDeepStrictEqual } from 'node:util';
import type { Deferred } from '../driver/deferred.ts';
import type { Future } from '../driver/future.ts';
import { defineBuiltIn } from '../orchestration/definition.ts';
import { HISTORY_MAX } from '../orchestration/lock-code.ts';
import type { OrchestrationContext } from '../orchestration/orchestration-context.ts';
import {
  type DueRecord,
  type Overlap,
  runIdOf,
  SCHEDULE,
  SCHEDULE_STATE,
  type ScheduleSpec,
  type ScheduleState,
  type ScheduleUpdates,
  scheduleUpdate,
} from './schedule-data.ts';
import { ENDED, RUN, type RunEnd, type RunInput, STOP } from './schedule-run.ts';
import { dueAfter, duesAfter } from './times.ts';

/** Due times that are decided in one turn. */
const PAGE = 100;

/** Most due times that are counted as missed; more are passed over without a count. */
const MISSED_MAX = 10_000;

/** Most due times that are buffered, and most runs that go on at once. More are skipped. */
const OPEN_MAX = 1_000;

/** Ended runs that stay in the state, and as many due times without a run. */
const RECENT_MAX = 100;

/** The longest timer: a later due time is looked for again. */
const SLEEP_MAX_MS = 24 * 3_600_000;

/** The due times to decide, and the time from which on there may be more. Part of the format. */
interface Look {
  readonly dues: readonly number[];
  /** The number of due times that are missed, and the last ones of them. */
  readonly missed: number;
  readonly missedDues: readonly number[];
  /** The last due time that is missed or decided. */
  readonly cursorMs: number;
  /** The next due time, and the time at which its run starts; `null` if there is none. */
  readonly nextMs: number | null;
  readonly startsMs: number | null;
}

/** The name of the activity that computes due times. Part of the format. */
const LOOK = `${SCHEDULE}.look`;

/** Returns the delay of a due time within `jitter`, the same for every call. FNV-1a. */
function jitterOf(id: string, dueMs: number, jitterMs: number): number {
  if (jitterMs === 0) return 0;
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(`${id}/${dueMs}`)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash % jitterMs;
}

function look(spec: ScheduleSpec, id: string, cursorMs: number, nowMs: number): Look {
  const { times, catchUpMs, jitterMs } = spec;
  let cursor = cursorMs;
  let missed = 0;
  const missedDues: number[] = [];
  for (const due of duesAfter(times, spec, cursor)) {
    if (due >= nowMs - catchUpMs) break;
    missed += 1;
    missedDues.push(due);
    if (missedDues.length > RECENT_MAX) missedDues.shift();
    // The rest is passed over.
    cursor = missed === MISSED_MAX ? nowMs - catchUpMs - 1 : due;
    if (missed === MISSED_MAX) break;
  }
  const dues: number[] = [];
  for (const due of duesAfter(times, spec, cursor)) {
    if (due + jitterOf(id, due, jitterMs) > nowMs || dues.length === PAGE) break;
    dues.push(due);
    cursor = due;
  }
  const nextMs = dueAfter(times, spec, cursor);
  const startsMs = nextMs === null ? null : nextMs + jitterOf(id, nextMs, jitterMs);
  return { dues, missed, missedDues, cursorMs: cursor, nextMs, startsMs };
}

/** True if two schedules have the same options, whether or not they are declared by workers of one name. */
function hasSameOptions({ declaredBy: _, ...one }: ScheduleSpec, { declaredBy: __, ...other }: ScheduleSpec): boolean {
  return isDeepStrictEqual(one, other);
}

function isOpen({ outcome }: DueRecord): boolean {
  return outcome === 'running' || outcome === 'buffered';
}

/** One execution of a schedule. */
class Schedule {
  readonly #ctx: OrchestrationContext;
  #state: ScheduleState | undefined;
  /** The number of changes by updates and ends of runs. */
  #changes = 0;
  #changed: Deferred<void>;
  #isDeleted = false;

  constructor(ctx: OrchestrationContext) {
    this.#ctx = ctx;
    this.#state = ctx.state.get<ScheduleState>(SCHEDULE_STATE);
    this.#changed = ctx.deferred();
  }

  *run(): Generator<Future<any>, void, any> {
    const ctx = this.#ctx;
    this.#on('set', (spec) => this.#set(spec));
    this.#on('pause', (pause) => this.#update({ paused: { sinceMs: ctx.now(), ...pause }, nextMs: null }));
    this.#on('resume', () => this.#resume());
    this.#on('run', ({ dues, overlap }) => (dues ?? [this.#freeTime()]).map((due) => this.#offer(due, overlap)));
    this.#on('delete', () => this.#delete());
    let ended: Future<RunEnd> | undefined;
    while (!this.#isDeleted && ctx.historyLength < HISTORY_MAX) {
      const changes = this.#changes;
      const startsMs = yield* this.#decide();
      if (changes !== this.#changes) continue;
      this.#changed = ctx.deferred();
      // The wait begins where it is awaited, so the schedule notes each end that it receives.
      ended ??= ctx.dequeueEvent<RunEnd>(ENDED);
      const timer = startsMs === null ? undefined : ctx.sleep(this.#delayTo(startsMs));
      const first = yield* ctx.race(timer === undefined ? [ended, this.#changed] : [ended, this.#changed, timer]);
      if (first.index !== 2) timer?.cancel();
      if (first.index !== 0) continue;
      ended = undefined;
      this.#ended(first.value as RunEnd);
    }
    yield* ctx.finishUpdates();
    if (!this.#isDeleted) yield* ctx.continueAsNew();
  }

  #delayTo(timeMs: number): number {
    return Math.min(Math.max(timeMs - this.#ctx.now(), 0), SLEEP_MAX_MS);
  }

  #on<Name extends keyof ScheduleUpdates>(name: Name, handle: (input: ScheduleUpdates[Name]) => unknown): void {
    const schedule = this;
    this.#ctx.onUpdate<ScheduleUpdates[Name], unknown>(scheduleUpdate(name), function* (input) {
      const answer = handle(input);
      schedule.#changes += 1;
      schedule.#changed.resolve();
      return answer;
    });
  }

  /** Decides on the due times that have come. Returns the time of the next start, ms since 1970; `null`: none. */
  *#decide(): Generator<Future<any>, number | null, any> {
    const ctx = this.#ctx;
    const state = this.#state;
    if (state === undefined || state.paused !== undefined) return null;
    const { spec, cursorMs, counts } = state;
    if (!this.#hasRunsLeft) {
      this.#update({ nextMs: null });
      return null;
    }
    const now = ctx.now();
    const changes = this.#changes;
    const [looked] = yield* ctx.allSettled([ctx.run(LOOK, () => look(spec, ctx.instanceId, cursorMs, now))]);
    // An update has come meanwhile: the schedule may be another.
    if (changes !== this.#changes) return null;
    if (looked.status === 'rejected') {
      this.#pauseAfter(`its due times cannot be computed: ${looked.reason}`);
      return null;
    }
    const { dues, missed, missedDues, nextMs, startsMs, ...found } = looked.value;
    this.#update({ cursorMs: found.cursorMs, nextMs, counts: { ...counts, missed: counts.missed + missed } });
    for (const dueMs of missedDues) this.#keep({ dueMs, outcome: 'missed' });
    for (const due of dues) {
      if (!this.#hasRunsLeft) break;
      this.#offer(due);
    }
    return startsMs;
  }

  #set(spec: ScheduleSpec): void {
    const before = this.#state;
    const isRemoved = before?.paused?.by === 'removal';
    const { paused, ...others } = before ?? {
      recent: [],
      counts: { started: 0, skipped: 0, missed: 0 },
      paused: undefined,
    };
    this.#publish({
      ...others,
      spec,
      ...(paused === undefined || isRemoved ? {} : { paused }),
      // With other times or bounds, due times count from now on. Otherwise the schedule keeps its place.
      cursorMs: before !== undefined && hasSameOptions(before.spec, spec) ? before.cursorMs : this.#ctx.now(),
      nextMs: before?.nextMs ?? null,
    });
  }

  #resume(): void {
    if (this.#state?.paused === undefined) return;
    const { paused: _, ...state } = this.#state;
    this.#publish({ ...state, cursorMs: this.#ctx.now() });
    this.#startBuffered();
  }

  #delete(): void {
    this.#isDeleted = true;
    this.#state = undefined;
    this.#ctx.state.delete(SCHEDULE_STATE);
  }

  /** Returns the present, or a moment later: a time that no decision has yet. */
  #freeTime(): number {
    const taken = new Set(this.#recent.map(({ dueMs }) => dueMs));
    let time = this.#ctx.now();
    while (taken.has(time)) time += 1;
    return time;
  }

  /** Decides on one due time. Returns the decision. */
  #offer(dueMs: number, overlap: Overlap | undefined = this.#present.spec.overlap): DueRecord {
    const open = this.#recent.filter(isOpen);
    const runs = open.filter(({ outcome }) => outcome === 'running');
    if (open.length >= OPEN_MAX) return this.#keep({ dueMs, outcome: 'skipped' });
    if (runs.length === 0 || overlap === 'allow') return this.#start(dueMs);
    if (overlap === 'skip') return this.#keep({ dueMs, outcome: 'skipped' });
    if (overlap === 'cancelPrevious') {
      const counts = this.#counts;
      this.#update({ counts: { ...counts, skipped: counts.skipped + open.length - runs.length } });
      this.#replace((kept) => (kept.outcome === 'buffered' ? { ...kept, outcome: 'skipped' } : kept));
      for (const { watcher } of runs) if (watcher !== undefined) this.#ctx.raiseEvent(watcher, STOP);
    }
    return this.#keep({ dueMs, outcome: 'buffered' });
  }

  #start(dueMs: number): DueRecord {
    const ctx = this.#ctx;
    const { start } = this.#present.spec;
    const runId = runIdOf(start, dueMs);
    const watcher = `${RUN}/${ctx.randomUUID()}`;
    const input: RunInput = { schedule: ctx.instanceId, dueMs, runId, start };
    ctx.startOrchestration(RUN, watcher, input);
    const counts = this.#counts;
    this.#update({ counts: { ...counts, started: counts.started + 1 } });
    return this.#keep({ dueMs, outcome: 'running', runId, watcher });
  }

  #ended({ watcher, outcome, error }: RunEnd): void {
    if (this.#state === undefined) return;
    const run = this.#recent.find((kept) => kept.watcher === watcher);
    const end = { outcome, ...(error === undefined ? {} : { error }) };
    this.#replace((kept) => (kept === run ? { ...kept, ...end } : kept));
    const { spec, paused } = this.#state;
    if (outcome === 'failed' && spec.pauseOnFailure && paused === undefined)
      this.#pauseAfter(`run '${run?.runId}' failed`);
    this.#startBuffered();
  }

  #pauseAfter(note: string): void {
    this.#update({ paused: { sinceMs: this.#ctx.now(), by: 'failure', note }, nextMs: null });
  }

  /** Starts the run that has waited longest, if no other goes on. */
  #startBuffered(): void {
    if (this.#state?.paused !== undefined || this.#recent.some(({ outcome }) => outcome === 'running')) return;
    const next = this.#recent.find(({ outcome }) => outcome === 'buffered');
    if (next === undefined) return;
    this.#update({ recent: this.#recent.filter((kept) => kept !== next) });
    this.#start(next.dueMs);
  }

  /** Adds a decision. */
  #keep(record: DueRecord): DueRecord {
    const counts = this.#counts;
    if (record.outcome === 'skipped') this.#update({ counts: { ...counts, skipped: counts.skipped + 1 } });
    this.#trim([...this.#recent, record]);
    return record;
  }

  #replace(change: (kept: DueRecord) => DueRecord): void {
    this.#trim(this.#recent.map(change));
  }

  /** Keeps what is open, the last runs that have ended, and the last due times without a run. */
  #trim(all: readonly DueRecord[]): void {
    const over = all.filter((record) => !isOpen(record));
    const last = (hasRun: boolean): DueRecord[] =>
      over.filter(({ runId }) => (runId !== undefined) === hasRun).slice(-RECENT_MAX);
    // A run that has lasted for many due times is not forgotten at its end.
    const kept = new Set([...last(true), ...last(false)]);
    this.#update({ recent: all.filter((record) => isOpen(record) || kept.has(record)) });
  }

  /** False if all runs were started, or will be: those that are buffered. */
  get #hasRunsLeft(): boolean {
    const { spec, counts, recent } = this.#present;
    const buffered = recent.filter(({ outcome }) => outcome === 'buffered').length;
    return counts.started + buffered < (spec.maxRuns ?? Number.POSITIVE_INFINITY);
  }

  get #present(): ScheduleState {
    if (this.#state === undefined) throw new TypeError('a schedule is started by client.schedules.upsert');
    return this.#state;
  }

  get #recent(): readonly DueRecord[] {
    return this.#present.recent;
  }

  get #counts(): ScheduleState['counts'] {
    return this.#present.counts;
  }

  #update(changes: Partial<ScheduleState>): void {
    this.#publish({ ...this.#present, ...changes });
  }

  #publish(state: ScheduleState): void {
    this.#state = state;
    this.#ctx.state.set(SCHEDULE_STATE, state);
  }
}

/** The orchestration that a schedule is. Its id is `perdure.schedule/` and the id of the schedule. */
export const scheduleOrchestration = defineBuiltIn(SCHEDULE, function* schedule(ctx: OrchestrationContext) {
  yield* new Schedule(ctx).run();
});
