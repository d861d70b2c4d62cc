// The workers: those of all processes, with their threads and the code that they have registered.

import type { JSX } from 'preact';

import type { RegisteredNames } from '../../client/description.ts';
import type { WorkerAnswer } from '../answers.ts';
import { count, duration, time } from './format.ts';
import { useNow } from './now.ts';
import { Problem } from './problem.tsx';
import { linkTo } from './route.ts';
import { useSamples } from './samples.ts';

/** Most characters of a host that are shown, because it may be long. */
const HOST_SHOWN = 24;

/** Names of a list that are shown before the user asks for the others. */
const NAMES_SHOWN = 40;

export function WorkersPage(): JSX.Element {
  const { sample, isLost, error } = useSamples();
  return (
    <>
      <div class="head">
        <h1>Workers</h1>
        <span class={`live ${isLost ? 'lost' : ''}`} role="status">
          {isLost ? 'connection lost' : 'live'}
        </span>
      </div>
      {error === undefined ? null : <Problem error={error} />}
      {sample === undefined ? (
        error === undefined ? (
          <p class="empty">Loading…</p>
        ) : null
      ) : (
        <>
          <Workers workers={sample.workers} />
          {sample.workers.map((worker) => (
            <Code key={worker.id} worker={worker} />
          ))}
          <Lanes workers={sample.workers} />
        </>
      )}
    </>
  );
}

/** The orchestrations and activities that a worker has registered, if its report says so. */
function Code({ worker: { id, name, pid, about } }: { worker: WorkerAnswer }): JSX.Element | null {
  const registered = about?.registered;
  if (registered === undefined) return null;
  const { orchestrations, activities, queues, anyQueue, isCut } = registered;
  return (
    <section class="panel" aria-labelledby={`code-${id}`}>
      <h2 id={`code-${id}`}>
        {name} <span class="faint">PID {pid}: registered code</span>
      </h2>
      <dl class="registered">
        <div>
          <dt>Orchestrations ({count(orchestrations.length)})</dt>
          <dd>
            <Names items={orchestrations.map((one) => ({ key: one.name, item: <Orchestration of={one} /> }))} />
          </dd>
        </div>
        <div>
          <dt>Activities ({count(activities.length)})</dt>
          <dd>
            <Names items={activities.map(tagOf)} />
          </dd>
        </div>
        <div>
          <dt>Queues</dt>
          <dd>{anyQueue ? 'every queue' : <Names items={queues.map(tagOf)} />}</dd>
        </div>
      </dl>
      {isCut ? <p class="note">The report of this worker leaves names out, because they are too many.</p> : null}
    </section>
  );
}

function tagOf(name: string): { key: string; item: JSX.Element } {
  return { key: name, item: <span class="tag">{name}</span> };
}

function Orchestration({ of: { name, versions } }: { of: RegisteredNames['orchestrations'][number] }): JSX.Element {
  return (
    <a class="tag" href={linkTo('instances', { name })}>
      {name} <span class="faint">{versions.join(', ')}</span>
    </a>
  );
}

function Names({ items }: { items: readonly { key: string; item: JSX.Element }[] }): JSX.Element {
  if (items.length === 0) return <span class="faint">none</span>;
  const [first, others] = [items.slice(0, NAMES_SHOWN), items.slice(NAMES_SHOWN)];
  return (
    <>
      {first.map(({ key, item }) => (
        <span key={key}>{item}</span>
      ))}
      {others.length === 0 ? null : (
        <details>
          <summary>{count(others.length)} more</summary>
          {others.map(({ key, item }) => (
            <span key={key}>{item}</span>
          ))}
        </details>
      )}
    </>
  );
}

/** A table of the workers. */
export function Workers({ workers }: { workers: readonly WorkerAnswer[] }): JSX.Element {
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
