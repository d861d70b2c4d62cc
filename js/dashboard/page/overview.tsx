// The overview of the store: counts, rates, overdue work, workers.

import type { JSX } from 'preact';

import type { InstancesAnswer, RuntimeAnswer, Sample } from '../answers.ts';
import { useAnswer } from './api.ts';
import { ago, count, duration, time, words } from './format.ts';
import { useNow } from './now.ts';
import { Problem } from './problem.tsx';
import { Rates } from './rates.tsx';
import { linkTo, queryOf } from './route.ts';
import { useSamples } from './samples.ts';
import { STATES, Status } from './status.tsx';
import { Workers } from './workers.tsx';

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
