// The log of effects of queues.test.ts and its like, and the rules that its lines and the limits must agree by.
//
// An entry (an instance, or an attempt) has its slot at least from its first line on until its line of the end, also
// while no worker is there: it is repeated only in the slot that it still has. An entry gets its slot some time before
// its first line, so each check counts only those that certainly have one.

import { closeSync, existsSync, openSync, readSync } from 'node:fs';

import { LINE } from '../support/worker-parts.mjs';

/** A line of the log, in the order in which the lines were written. */
export interface Line {
  /**
   * `begin` and `end` of an instance, `call` and `called` of an attempt in a queue of its own. `killed`: a worker was
   * killed; `lost`: a worker found that it had lost its lease. `limits`: from here on at most `concurrency` instances
   * have a slot. `gone`: the instance is about to be ended from outside.
   */
  readonly event: 'begin' | 'end' | 'call' | 'called' | 'killed' | 'lost' | 'limits' | 'gone';
  readonly worker: string;
  /** The id of the instance. */
  readonly id: string;
  readonly attempt: number;
  /** ms since 1970. */
  readonly at: number;
  readonly concurrency?: number;
}

/** Reads a log while processes write it. */
export class QueueLog {
  readonly lines: Line[] = [];
  readonly #path: string;
  readonly #ended = new Set<string>();
  #read = 0;

  constructor(path: string) {
    this.#path = path;
  }

  /** Reads the lines that were written since the last call. */
  read(): void {
    if (!existsSync(this.#path)) return;
    const file = openSync(this.#path, 'r');
    const buffer = Buffer.alloc(256 * LINE);
    for (let length = buffer.length; length === buffer.length; ) {
      length = readSync(file, buffer, 0, buffer.length, this.#read);
      length -= length % LINE;
      this.#read += length;
      for (const text of buffer.toString('utf8', 0, length).split('\n').filter(Boolean)) this.#add(JSON.parse(text));
    }
    closeSync(file);
  }

  #add(line: Line): void {
    this.lines.push(line);
    if (line.event === 'end' || line.event === 'gone') this.#ended.add(line.id);
  }

  /** The number of instances that have ended, or are about to, as of now. */
  get ended(): number {
    this.read();
    return this.#ended.size;
  }
}

/** Returns the key of an instance, and of its attempts, from its id. */
export const keyOf = (id: string): string => id.split('/', 1)[0] as string;

/** The life of an entry in the log. */
export interface Entry {
  readonly name: string;
  readonly id: string;
  readonly key: string;
  /** The worker that began it. */
  readonly worker: string;
  /** The numbers of its first line, and of its first line of an end; Infinity: there is none. */
  readonly from: number;
  readonly to: number;
  /** The times of these lines, ms since 1970. */
  readonly fromMs: number;
  readonly toMs: number;
}

/** The events of the log between which an instance, or an attempt, has its slot. */
const EVENTS = { instances: ['begin', 'end'], attempts: ['call', 'called'] } as const;

export type Kind = keyof typeof EVENTS;

/** Returns the entries in the order of their begins, without those of instances that were ended from outside. */
export function entriesOf(lines: readonly Line[], kind: Kind): Entry[] {
  const [begin, end] = EVENTS[kind];
  const gone = new Set(lines.flatMap(({ event, id }) => (event === 'gone' ? [id] : [])));
  const entries = new Map<string, Entry>();
  for (const [from, { event, id, attempt, worker, at }] of lines.entries()) {
    if ((event !== begin && event !== end) || gone.has(id)) continue;
    const name = kind === 'instances' ? id : `${id} attempt ${attempt}`;
    const known = entries.get(name);
    if (event === begin && known === undefined) {
      const open = { to: Infinity, toMs: Infinity };
      entries.set(name, { name, id, key: keyOf(id), worker, from, fromMs: at, ...open });
    }
    if (event === end && known?.to === Infinity) entries.set(name, { ...known, to: from, toMs: at });
  }
  return [...entries.values()];
}

/** Returns the entries that began again after their end. */
export function begunAfterEnd(lines: readonly Line[], entries: readonly Entry[]): string[] {
  const ends = new Map(entries.map(({ id, to }) => [id, to]));
  return lines.flatMap(({ event, id }, n) => (event === 'begin' && n > (ends.get(id) ?? n) ? [`${id} again`] : []));
}

/**
 * Returns the moments at which more entries had a slot than a limit allows. `limit` is that before the first line of
 * `limits`, which concern all instances.
 */
export function overConcurrency(entries: readonly Entry[], limit: number, lines: readonly Line[] = []): string[] {
  const changes = lines.flatMap(({ event, concurrency }, at) =>
    event === 'limits' && concurrency !== undefined ? [{ at, concurrency }] : [],
  );
  const found: string[] = [];
  let atWork: Entry[] = [];
  let most = limit;
  for (const entry of entries) {
    for (; changes[0] !== undefined && changes[0].at < entry.from; changes.shift()) most = changes[0].concurrency;
    atWork = [...atWork.filter(({ to }) => to > entry.from), entry];
    if (atWork.length > most) found.push(`${atWork.map(({ name }) => name).join(', ')} at once, and ${most} may`);
  }
  return found;
}

/**
 * Returns the spans of time in which more entries began than a rate allows, by the clock of the machine. An entry whose
 * slot is from before the span may begin in it. Such an entry had a slot without a begin when the span began, so there
 * were at most as many as `concurrency` allows beside those that were at work.
 */
export function overRate(
  entries: readonly Entry[],
  { limit, perMs, concurrency }: { readonly limit: number; readonly perMs: number; readonly concurrency: number },
): string[] {
  const begins = entries.map(({ fromMs }) => fromMs).sort((a, b) => a - b);
  const ends = entries.map(({ toMs }) => toMs).sort((a, b) => a - b);
  const found: string[] = [];
  let [before, ended, within] = [0, 0, 0];
  for (const from of begins) {
    for (; (begins[before] ?? from) < from; before += 1);
    for (; (ends[ended] ?? from) < from; ended += 1);
    for (; (begins[within] ?? Infinity) < from + perMs; within += 1);
    const [count, atWork] = [within - before, before - ended];
    if (count > limit + concurrency - atWork)
      found.push(`${count} began in ${perMs} ms from ${from} on, and ${limit} beside ${concurrency - atWork} may`);
  }
  return found;
}

/** Applies a check to the entries of each key. */
export function ofEachKey(entries: readonly Entry[], check: (entries: readonly Entry[]) => string[]): string[] {
  const keys = [...new Set(entries.map(({ key }) => key))];
  return keys.flatMap((key) =>
    check(entries.filter((entry) => entry.key === key)).map((found) => `of '${key}': ${found}`),
  );
}

/** A start in a queue, in the order in which the client made them. */
export interface Start {
  readonly id: string;
  readonly priority: number;
  /** The number of the call that made it. Those of call 0 were in line before the first worker came. */
  readonly call: number;
}

/** Returns true if one start is before another one of its key in line, at any time at which both are there. */
function isAhead(one: Start & { n: number }, other: Start & { n: number }): boolean {
  if (one.call === 0 && other.call === 0 && one.priority !== other.priority) return one.priority > other.priority;
  return one.n < other.n && one.priority >= other.priority;
}

/**
 * Returns the instances of one key that were overtaken. When one begins, those before it have begun or have slots. So
 * those that have not begun, and those at work, are at most as many as the limit of the key.
 */
export function outOfOrder(entries: readonly Entry[], starts: readonly Start[], keyConcurrency: number): string[] {
  const ids = new Set(entries.map(({ id }) => id));
  const rest = new Map(starts.flatMap((start, n) => (ids.has(start.id) ? [[start.id, { ...start, n }] as const] : [])));
  const found: string[] = [];
  let atWork: Entry[] = [];
  for (const entry of entries) {
    const start = rest.get(entry.id);
    if (start === undefined) continue;
    rest.delete(entry.id);
    atWork = [...atWork.filter(({ to }) => to > entry.from), entry];
    const ahead = [...rest.values()].filter((other) => isAhead(other, start)).map(({ id }) => id);
    if (ahead.length + atWork.length > keyConcurrency) found.push(`${entry.id} began before ${ahead.join(', ')}`);
  }
  return found;
}

/** The most time from the loss of a lease until its worker notices that, ms. */
const NOTICED_MS = 10_000;

/**
 * Returns the moments at which a worker had more attempts than a limit allows. A worker may take over more than that
 * from others. So only attempts count whose instance has begun since the last worker was killed, or lost its lease.
 */
export function overPerWorker(lines: readonly Line[], entries: readonly Entry[], limit: number): string[] {
  const lost = lines.flatMap(({ event, at }) => (event === 'lost' ? [at] : []));
  const kills = lines.flatMap(({ event, worker }, at) => (event === 'killed' ? [{ at, worker }] : []));
  const instances = new Map(entriesOf(lines, 'instances').map((entry) => [entry.id, entry]));
  const isNew = ({ id, from, fromMs }: Entry): boolean => {
    const begun = instances.get(id);
    if (begun === undefined || kills.some(({ at }) => begun.from < at && at < from)) return false;
    return !lost.some((at) => at > begun.fromMs && at < fromMs + NOTICED_MS);
  };
  const atWork = new Map<string, Entry[]>();
  const found: string[] = [];
  for (const entry of entries.filter(isNew)) {
    const others = (atWork.get(entry.worker) ?? []).filter(
      ({ to, from }) =>
        to > entry.from && !kills.some(({ at, worker }) => worker === entry.worker && from < at && at < entry.from),
    );
    const now = [...others, entry];
    atWork.set(entry.worker, now);
    if (now.length > limit) found.push(`${now.map(({ name }) => name).join(', ')} at once in ${entry.worker}`);
  }
  return found;
}
