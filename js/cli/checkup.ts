// The checks of `perdure doctor`: one or more findings for each subject.

import type { Client } from '../client/client.ts';
import type { StoreDescription, WorkerInfo } from '../client/description.ts';
import type { InstanceStatus } from '../client/instance-status.ts';
import type { QueueInfo } from '../client/queues.ts';
import type { OverdueInstances, StoreStats } from '../client/stats.ts';
import { PerdureError, SchemaVersionError } from '../errors/errors.ts';
import { Exit } from './exit.ts';
import { agoText, bytesText, countText, printable, spanText } from './text.ts';

/** The finding of one check. */
export interface Finding {
  readonly subject: string;
  readonly state: 'ok' | 'warning' | 'problem';
  readonly detail: string;
  /** Advice on how to fix it. */
  readonly advice?: string;
}

/**
 * Difference at which the clocks of the store and of this machine are too far apart. Leases and timers go by the
 * store's clock.
 */
const CLOCKS_APART_MS = 5_000;
/** Schema version of the first release, in all stores. `perdure migrate` refuses the development versions before it. */
const FIRST_SCHEMA_VERSION = 100;
/** Most suspended instances whose errors are read. */
const SUSPENDED_MAX = 1_000;
/** Most instances or workers that one finding names. */
const NAMED = 3;

/** Checks a store that could be opened. */
export async function examineStore(client: Client): Promise<Finding[]> {
  const asked = Date.now();
  const store = await client.describeStore();
  const answered = Date.now();
  const stats = await client.stats();
  const workers = await client.workers();
  return [
    ofPlace(store),
    ...(store.kind === 'postgres' ? ofPostgres(store) : ofSqlite(store)),
    ofClock(store, asked, answered),
    ofWorkers(workers, stats),
    ...ofDue(workers, stats, await client.overdue()),
    ...(await ofSuspended(client, stats)),
    ...ofQueues(await client.queues.list()),
  ];
}

/** Returns the finding for a store that could not be opened. */
export function findingOfFailure(error: unknown): Finding {
  // An error in the arguments is not a finding.
  if (error instanceof Exit || !(error instanceof PerdureError)) throw error;
  if (error instanceof SchemaVersionError) {
    return { subject: 'schema', state: 'problem', detail: error.message, advice: schemaAdvice(error) };
  }
  return { subject: 'store', state: 'problem', detail: error.message };
}

function schemaAdvice({ found, supported }: SchemaVersionError): string {
  if (found > supported) return 'use the newest Perdure that uses this store';
  return found < FIRST_SCHEMA_VERSION
    ? '`perdure migrate` cannot migrate it: choose another path or schema for the store'
    : 'run `perdure migrate`, once no older Perdure uses it';
}

function ofPlace({ kind, location, schemaVersion, bytes }: StoreDescription): Finding {
  return {
    subject: 'store',
    state: 'ok',
    detail: `${kind} at ${printable(location)}, schema version ${schemaVersion}, ${bytesText(bytes)}`,
  };
}

function ofSqlite({ settings }: StoreDescription): Finding[] {
  const { sqlite_version: version, journal_mode: journal, synchronous } = settings;
  const detail =
    `SQLite ${version}, journal_mode ${journal}, ` +
    `synchronous ${synchronous} unless a runtime opens it with durability 'normal'`;
  const isSafe = journal === 'wal' || journal === 'memory';
  const free = Number(settings.free_bytes ?? 0);
  const findings: Finding[] = [{ subject: 'durability', state: isSafe ? 'ok' : 'problem', detail }];
  if (free > FREE_BYTES_MANY) {
    findings.push({
      subject: 'space',
      state: 'warning',
      detail: `${bytesText(free)} of the file are unused`,
      advice: 'run VACUUM to shrink the file, while no runtime is started',
    });
  }
  return findings;
}

/** Unused bytes of a file above which they are reported. */
const FREE_BYTES_MANY = 256 * 1_024 * 1_024;

/** Server settings that weaken the durability of a commit, or the health of tables, and the risk of each. */
const POSTGRES_RISKS: readonly (readonly [
  setting: string,
  wanted: (value: string) => boolean,
  state: 'warning' | 'problem',
  risk: string,
])[] = [
  ['fsync', (value) => value === 'on', 'problem', 'a crash of the server may damage the whole database'],
  ['full_page_writes', (value) => value === 'on', 'problem', 'a crash of the server may damage pages'],
  [
    'synchronous_commit',
    (value) => value !== 'off',
    'problem',
    'a crash of the server may lose commits that clients were told are durable',
  ],
  ['autovacuum', (value) => value === 'on', 'warning', 'tables and indexes grow until they are vacuumed by hand'],
];

function ofPostgres({ settings }: StoreDescription): Finding[] {
  const findings = POSTGRES_RISKS.flatMap(([setting, isWanted, state, risk]): Finding[] => {
    const value = settings[setting];
    return value === undefined || isWanted(value)
      ? []
      : [
          {
            subject: 'durability',
            state,
            detail: `${setting} is ${value}: ${risk}`,
            advice: `change ${setting} in the configuration of the server`,
          },
        ];
  });
  const { server_version: version, synchronous_commit: commit, fsync } = settings;
  const well: Finding = {
    subject: 'durability',
    state: 'ok',
    detail: `Postgres ${version}, synchronous_commit ${commit}, fsync ${fsync}`,
  };
  return findings.some(({ state }) => state === 'problem') ? findings : [well, ...findings];
}

/** The store's clock was read some time between the request and the answer. */
function ofClock({ clock }: StoreDescription, asked: number, answered: number): Finding {
  const at = clock.getTime();
  const apart = at < asked ? at - asked : Math.max(0, at - answered);
  if (Math.abs(apart) < CLOCKS_APART_MS)
    return { subject: 'clock', state: 'ok', detail: 'the clocks of the store and of this machine agree' };
  const side = apart < 0 ? 'behind' : 'ahead of';
  const detail = `the store's clock is ${spanText(Math.abs(apart))} ${side} this machine's`;
  return {
    subject: 'clock',
    state: 'warning',
    detail,
    advice: "leases and timers use the store's clock: synchronize both clocks with a time server",
  };
}

function ofWorkers(workers: readonly WorkerInfo[], stats: StoreStats): Finding {
  const dead = workers.filter(({ isAlive }) => !isAlive);
  const alive = workers.filter(({ isAlive }) => isAlive);
  const named = (some: readonly WorkerInfo[]): string =>
    some
      .slice(0, NAMED)
      .map(({ name, pid }) => `${printable(name)} (pid ${pid})`)
      .join(', ');
  if (dead.length > 0) {
    const held = dead.reduce((sum, { instances }) => sum + instances, 0);
    const since = dead.map(({ leaseUntil }) => agoText(leaseUntil))[0];
    const owned = countText(held, 'instance');
    const detail = `the lease of ${named(dead)} expired ${since}, and no worker has taken over its ${owned}`;
    return { subject: 'workers', state: 'problem', detail, advice: 'start a runtime: it takes over these instances' };
  }
  if (alive.length === 0) {
    const open = stats.instances.Pending + stats.instances.Running;
    if (open === 0)
      return { subject: 'workers', state: 'ok', detail: 'no runtime is started, and no instance is open' };
    const detail = `no runtime is started, and ${countText(open, 'instance')} ${open === 1 ? 'has' : 'have'} not ended`;
    return {
      subject: 'workers',
      state: 'warning',
      detail,
      advice: 'start a runtime: instances make no progress without one',
    };
  }
  const first = alive.reduce(
    (soonest, { leaseUntil }) => (leaseUntil < soonest ? leaseUntil : soonest),
    (alive[0] as WorkerInfo).leaseUntil,
  );
  return {
    subject: 'workers',
    state: 'ok',
    detail:
      `${countText(alive.length, 'runtime')}: ${named(alive)}; ` +
      `the first lease ends ${agoText(first)} unless it is renewed`,
  };
}

/** A pause may have been forgotten. */
function ofQueues(queues: readonly QueueInfo[]): Finding[] {
  return queues.flatMap(({ name, paused, waiting, delayed }): Finding[] => {
    if (paused === undefined || waiting + delayed === 0) return [];
    const detail = `queue ${printable(name)} was paused ${agoText(paused.since)}, and ${waiting + delayed} wait in it`;
    const advice = `run \`perdure queues resume ${printable(name)}\` when they are to run`;
    return [{ subject: 'queues', state: 'warning', detail, advice }];
  });
}

function ofDue(
  workers: readonly WorkerInfo[],
  { due, tasks }: StoreStats,
  overdue: readonly OverdueInstances[],
): Finding[] {
  if (overdue.length === 0) {
    return [
      {
        subject: 'overdue',
        state: 'ok',
        detail:
          `no instance; ${countText(due.instances, 'instance')} due now, ` +
          `${countText(tasks.waiting, 'task')} waiting`,
      },
    ];
  }
  const advice = workers.some(({ isAlive }) => isAlive)
    ? 'no started runtime has registered this version, or the ones that have are too busy: see `perdure workers`'
    : 'start a runtime that has registered this version';
  const findings = overdue.slice(0, NAMED).map(({ name, version, instances, oldestMs, oldestId }): Finding => {
    const detail =
      `${countText(instances, 'instance')} of ${printable(`${name} ${version}`.trimEnd())} ` +
      `${instances === 1 ? 'is' : 'are'} due and not taken by a worker; ` +
      `the oldest, ${printable(oldestId)}, for ${spanText(oldestMs)}`;
    return { subject: 'overdue', state: 'problem', detail, advice };
  });
  const others = overdue.slice(NAMED).map(({ name, version }) => printable(`${name} ${version}`.trimEnd()));
  if (others.length > 0)
    findings.push({
      subject: 'overdue',
      state: 'problem',
      detail: `${countText(due.overdue, 'instance')} in total, also of ${others.join(', ')}`,
    });
  return findings;
}

async function ofSuspended(client: Client, { instances }: StoreStats): Promise<Finding[]> {
  if (instances.Suspended === 0) return [{ subject: 'suspended', state: 'ok', detail: 'no instance' }];
  const sorts = new Map<string, InstanceStatus[]>();
  for await (const instance of client.listInstances({ system: true, status: 'Suspended', limit: SUSPENDED_MAX })) {
    const { name, version, error } = instance;
    const firstLine = (error?.message ?? '').split('\n').slice(0, 1).join('');
    const sort = `${name} ${version}: ${firstLine.replaceAll(instance.id, '…')}`;
    sorts.set(sort, [...(sorts.get(sort) ?? []), instance]);
  }
  return [...sorts].map(([sort, some]) => {
    const code = (some[0]?.error as { code?: string } | undefined)?.code;
    // A client suspended this instance, and may resume it when it likes.
    const isHeld = code === 'SUSPENDED';
    const ids = some
      .slice(0, NAMED)
      .map(({ id }) => printable(id))
      .join(', ');
    const more = some.length > NAMED ? ', …' : '';
    const detail = `${countText(some.length, 'instance')} of ${printable(sort)} (${ids}${more})`;
    return { subject: 'suspended', state: isHeld ? 'warning' : 'problem', detail, advice: adviceFor(code) };
  });
}

const LIMIT_ADVICE =
  'it exceeds a limit: raise the limit, or use continueAsNew in the orchestration, then run `perdure resume`';

function adviceFor(code: string | undefined): string {
  switch (code) {
    case 'NONDETERMINISM':
      return (
        'the code does not match the history: `perdure show` prints the report; ' +
        'deploy matching code under the same name and version, which resumes it; ' +
        '`perdure export` and `perdure replay` check the code before'
      );
    case 'LIMIT':
      return LIMIT_ADVICE;
    case 'PAYLOAD':
      return 'a value cannot be read: give the runtime the codec that wrote it, then run `perdure resume`';
    case 'SUSPENDED':
      return 'a client suspended it: run `perdure resume` to continue';
    default:
      return '`perdure show` prints the reason: remove the cause, then run `perdure resume`';
  }
}
