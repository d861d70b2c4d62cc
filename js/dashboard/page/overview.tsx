// The overview of the store: counts, rates, overdue work, workers.

import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import type {
  ErrorAnswer,
  InstancesAnswer,
  PastAnswer,
  RuntimeAnswer,
  Sample,
  SampleCounts,
  WorkerAnswer,
} from '../answers.ts';
import { listen, RequestError, useAnswer } from './api.ts';
import { ago, count, duration, time, words } from './format.ts';
import { useNow } from './now.ts';
import { Problem } from './problem.tsx';
import { Rates } from './rates.tsx';
import { linkTo, queryOf } from './route.ts';
import { STATES, Status } from './status.tsx';

/** Past samples that are kept for the rates. */
const TICKS_MAX = 150;

/** Most characters of a host that are shown, because it may be long. */
const HOST_SHOWN = 24;

interface SampleState {
  readonly sample?: Sample;
  readonly ticks: readonly SampleCounts[];
  readonly isLost: boolean;
  readonly error?: RequestError;
}

function useSamples(): SampleState {
  const [seen, setSeen] = useState<SampleState>({ ticks: [], isLost: false });
  useEffect(
    () =>
      listen(
        () => 'live',
        {
          past: (ticks: PastAnswer) => setSeen(({ error: _, ...was }) => ({ ...was, ticks })),
          sample: (sample: Sample) =>
            setSeen(({ ticks, isLost }) => ({ sample, ticks: [...ticks, sample.tick].slice(-TICKS_MAX), isLost })),
          failed: ({ error }: ErrorAnswer) =>
            setSeen((was) => ({ ...was, error: new RequestError(0, error.code, error.message) })),
        },
        (isLost) => setSeen((was) => ({ ...was, isLost })),
      ),
    [],
  );
  return seen;
}

export function Overview(): JSX.Element {
  const { sample, ticks, isLost, error } = useSamples();
  return (
    <>
      <div class="head">
        <h1>Overview</h1>
        <span class={`live ${isLost ? 'lost' : ''}`} role="status">
          {isLost ? 'connection lost' : 'live'}
        </span>
      </div>
      {error === undefined ? null : <Problem error={error} />}
      {sample === undefined ? error === undefined ? <p class="empty">Loading…</p> : null : <Counts sample={sample} />}
      <Rates ticks={ticks} />
      {sample === undefined ? null : <Troubled instances={sample.stats.instances} />}
      {sample === undefined ? null : <Workers workers={sample.workers} />}
      {sample === undefined ? null : <Lanes workers={sample.workers} />}
      {sample?.runtime ? <Counters runtime={sample.runtime} /> : null}
    </>
  );
}

function Counts({ sample: { stats } }: { sample: Sample }): JSX.Element {
  const { instances, due, tasks, messages } = stats;
  const isEmpty = STATES.every((state) => instances[state] === 0);
  return (
    <>
      {isEmpty ? <p class="panel empty">No instances yet. Instances appear here when a client starts them.</p> : null}
      <ul class="tiles" aria-label="Instances by status">
        {STATES.map((state) => (
          <li key={state}>
            <a class="tile" href={linkTo('instances', { status: state })}>
              <Status of={state} />
              <span class="number">{count(instances[state])}</span>
            </a>
          </li>
        ))}
      </ul>
      <section class="panel" aria-labelledby="waiting">
        <h2 id="waiting">Backlog</h2>
        <dl class="facts">
          <Fact
            name="Oldest due instance"
            value={due.instances === 0 ? 'none' : duration(due.oldestMs)}
            isBad={due.overdue > 0}
          />
          <Fact name="Instances due" value={count(due.instances)} />
          <Fact name="Overdue instances (10 s)" value={count(due.overdue)} isBad={due.overdue > 0} />
          <Fact name="Waiting activity tasks" value={count(tasks.waiting)} />
          <Fact name="Running activity tasks" value={count(tasks.running)} />
          <Fact name="Unread messages" value={count(messages)} />
        </dl>
        {due.overdue > 0 ? (
          <p class="note">
            No worker takes the overdue instances: no worker has registered their orchestration and version, or all that
            have are too busy.
          </p>
        ) : null}
      </section>
    </>
  );
}

function Fact({ name, value, isBad = false }: { name: string; value: string; isBad?: boolean }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd class={isBad ? 'bad' : ''}>{value}</dd>
    </div>
  );
}

/** The newest suspended and failed instances. They are read when there are any, and again when their number changes. */
function Troubled({ instances }: { instances: Sample['stats']['instances'] }): JSX.Element | null {
  const status = TROUBLED.filter((state) => instances[state] > 0);
  return status.length === 0 ? null : <Newest key={status.map((state) => instances[state]).join()} status={status} />;
}

const TROUBLED = ['Suspended', 'Failed'] as const;

function Newest({ status }: { status: readonly string[] }): JSX.Element | null {
  const { answer } = useAnswer<InstancesAnswer>(`instances?${queryOf({ status, limit: 5 })}`);
  const now = useNow();
  if (answer === undefined || answer.items.length === 0) return null;
  return (
    <section class="panel" aria-labelledby="troubled">
      <h2 id="troubled">Recent failed and suspended instances</h2>
      <ul class="lines">
        {answer.items.map(({ id, name, status, error, updatedAtMs }) => (
          <li key={id}>
            <Status of={status} />
            <a class="id" href={linkTo('instance', { id })}>
              {id}
            </a>
            <span class="faint">{name}</span>
            <span class="grow" title={error}>
              {error}
            </span>
            <span class="faint" title={time(updatedAtMs)}>
              {ago(updatedAtMs, now)}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Workers({ workers }: { workers: readonly WorkerAnswer[] }): JSX.Element {
  const now = useNow();
  return (
    <section class="panel" aria-labelledby="workers">
      <h2 id="workers">Workers</h2>
      {workers.length === 0 ? (
        <p class="empty">No workers. Start a runtime on this store.</p>
      ) : (
        <div class="scroll" tabIndex={0} role="group" aria-labelledby="workers">
          <table>
            <thead>
              <tr>
                <th scope="col">Worker</th>
                <th scope="col">Host</th>
                <th scope="col" class="right">
                  PID
                </th>
                <th scope="col">Versions</th>
                <th scope="col" class="right">
                  Instances
                </th>
                <th scope="col" class="right">
                  Tasks
                </th>
                <th scope="col" class="right">
                  Activities
                </th>
                <th scope="col">Lease</th>
              </tr>
            </thead>
            <tbody>
              {workers.map(({ id, name, host, pid, instances, tasks, leaseUntilMs, isAlive, about }) => (
                <tr key={id}>
                  <td title={id}>{name}</td>
                  <td title={host}>{shortened(about?.hostName || host)}</td>
                  <td class="right">{pid}</td>
                  <td>{about === undefined ? '' : `Node ${about.nodeVersion}, Perdure ${about.perdureVersion}`}</td>
                  <td class="right">{count(instances)}</td>
                  <td class="right">{count(tasks)}</td>
                  <td class="right">
                    {about === undefined
                      ? ''
                      : `${count(about.runningActivities)} of ${count(about.activityConcurrency)}`}
                  </td>
                  <td title={time(leaseUntilMs)}>
                    {isAlive ? (
                      <span class="good">alive</span>
                    ) : (
                      <span class="bad">lease expired {duration(Math.max(0, now - leaseUntilMs))} ago</span>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function shortened(host: string): string {
  return host.length > HOST_SHOWN ? `${host.slice(0, HOST_SHOWN)}…` : host;
}

/** The threads of all workers, as last reported. */
function Lanes({ workers }: { workers: readonly WorkerAnswer[] }): JSX.Element | null {
  const lanes = workers.flatMap(({ id, name, pid, about }) =>
    (about?.lanes ?? []).map((lane, n) => ({ key: `${id} ${n}`, worker: `${name} (${pid})`, n, ...lane })),
  );
  if (lanes.length === 0) return null;
  return (
    <section class="panel" aria-labelledby="lanes">
      <h2 id="lanes">Lanes</h2>
      <div class="scroll" tabIndex={0} role="group" aria-labelledby="lanes">
        <table>
          <thead>
            <tr>
              <th scope="col">Worker</th>
              <th scope="col">Lane</th>
              <th scope="col">Busy</th>
              <th scope="col" class="right">
                Pinned jobs
              </th>
              <th scope="col" class="right">
                Queued jobs
              </th>
              <th scope="col" class="right">
                Stolen
              </th>
              <th scope="col" class="right">
                Parked
              </th>
            </tr>
          </thead>
          <tbody>
            {lanes.map(({ key, worker, n, busyShare, pinnedJobs, takenJobs, steals, parks }) => (
              <tr key={key}>
                <td>{worker}</td>
                <td>{n === 0 ? 'main thread' : `thread ${n}`}</td>
                <td>
                  <meter min={0} max={1} value={busyShare} aria-label={`Load of lane ${n} of ${worker}`} />{' '}
                  {Math.round(busyShare * 100)} %
                </td>
                <td class="right">{count(pinnedJobs)}</td>
                <td class="right">{count(takenJobs)}</td>
                <td class="right">{count(steals)}</td>
                <td class="right">{count(parks)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** The counters of the runtime that the dashboard was given. */
function Counters({ runtime: { counters } }: { runtime: RuntimeAnswer }): JSX.Element {
  return (
    <section class="panel" aria-labelledby="counters">
      <h2 id="counters">Counters of this process</h2>
      <dl class="facts">
        {Object.entries(counters).map(([name, value]) => (
          <Fact key={name} name={words(name)} value={count(value)} />
        ))}
      </dl>
    </section>
  );
}
