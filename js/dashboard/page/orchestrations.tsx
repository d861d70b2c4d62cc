// The orchestrations, by name and version, with the numbers of a sample of their instances.

import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';

import type { OrchestrationNumbers, OrchestrationRow, OrchestrationsAnswer } from '../answers.ts';
import { useAnswer } from './api.ts';
import { ago, count, duration, rate, time } from './format.ts';
import { useNow } from './now.ts';
import { Problem } from './problem.tsx';
import { linkTo } from './route.ts';
import { StartButton } from './start.tsx';
import { STATES } from './status.tsx';

/** Interval of reading the numbers again, ms. */
const REFRESH_MS = 5_000;

export function Orchestrations(): JSX.Element {
  const { answer, error, reload } = useAnswer<OrchestrationsAnswer>('orchestrations');
  useEffect(() => {
    const timer = window.setInterval(() => document.hidden || reload(), REFRESH_MS);
    return () => window.clearInterval(timer);
  }, [reload]);
  return (
    <>
      <div class="head">
        <h1>Orchestrations</h1>
        <span class="tools">
          <StartButton />
        </span>
      </div>
      {error !== undefined ? (
        <Problem error={error} again={reload} />
      ) : answer === undefined ? (
        <p class="empty">Loading…</p>
      ) : (
        <Table answer={answer} />
      )}
    </>
  );
}

function Table({ answer }: { answer: OrchestrationsAnswer }): JSX.Element {
  if (answer.items.length === 0)
    return (
      <p class="panel empty">
        No orchestrations yet. They appear here when a client starts an instance, or a worker registers them.
      </p>
    );
  return (
    <>
      <Sample answer={answer} />
      <div class="scroll panel flush" tabIndex={0} role="group" aria-label="List of orchestrations">
        <table class="rows">
          <thead>
            <tr>
              <th scope="col">Orchestration</th>
              <th scope="col">Instances by status</th>
              <th scope="col" class="right" title="Share of the ended instances that are Failed">
                Failure rate
              </th>
              <th scope="col" class="right" title="Half of the ended instances took no longer">
                p50
              </th>
              <th scope="col" class="right" title="99 of 100 ended instances took no longer">
                p99
              </th>
              <th scope="col" class="right">
                Starts /min
              </th>
              <th scope="col" class="right" title="Instances that no worker has taken for 10 s, of the whole store">
                Overdue
              </th>
              <th scope="col" class="right" title="Live workers that have registered it">
                Workers
              </th>
            </tr>
          </thead>
          <tbody>{answer.items.flatMap((row) => rowsOf(row))}</tbody>
        </table>
      </div>
    </>
  );
}

/** The size of the sample, and the time that it covers. */
function Sample({ answer: { sampled, isWhole, sinceMs } }: { answer: OrchestrationsAnswer }): JSX.Element {
  const now = useNow();
  return (
    <p class="sample">
      {isWhole ? 'These numbers cover all ' : 'A sample: the newest '}
      {count(sampled)} instances
      {sampled === 0 ? null : (
        <>
          , the oldest of them started <span title={time(sinceMs)}>{ago(sinceMs, now)}</span>
        </>
      )}
      .{isWhole ? null : ' Older instances are missing.'}
    </p>
  );
}

/** The row of an orchestration, and one for each version if there are several. */
function rowsOf(row: OrchestrationRow): JSX.Element[] {
  const { name, versions } = row;
  const [only] = versions;
  const isSingle = versions.length === 1 && only !== undefined;
  const first = (
    <tr key={name}>
      <th scope="row">
        <a href={linkTo('instances', { name })}>{name}</a>{' '}
        <span class="faint">{isSingle ? only.version : `${versions.length} versions`}</span>
      </th>
      <Numbers of={row} params={{ name }} />
      <td class="right">{isSingle ? workersText(only.workers) : ''}</td>
    </tr>
  );
  if (isSingle) return [first];
  return [
    first,
    ...versions.map(({ version, workers, ...numbers }) => (
      <tr key={`${name} ${version}`} class="version">
        <th scope="row">
          <a href={linkTo('instances', { name, version })}>{version === '' ? 'no version yet' : version}</a>
        </th>
        <Numbers of={numbers} params={{ name, version }} />
        <td class="right">{workersText(workers)}</td>
      </tr>
    )),
  ];
}

/** Workers of an older release do not report what they have registered, so 0 may mean that it is not known. */
function workersText(workers: number): string {
  return workers === 0 ? '–' : count(workers);
}

interface NumbersProps {
  readonly of: OrchestrationNumbers;
  /** The filter of the list that shows these instances. */
  readonly params: Readonly<Record<string, string>>;
}

function Numbers({ of, params }: NumbersProps): JSX.Element {
  const { counts, ended, p50Ms, p99Ms, startsPerSecond, overdue } = of;
  return (
    <>
      <td class="counts">
        {STATES.filter((state) => counts[state] > 0).map((state) => (
          <a
            key={state}
            class={`status ${state.toLowerCase()}`}
            href={linkTo('instances', { ...params, status: state })}
          >
            {state} {count(counts[state])}
          </a>
        ))}
      </td>
      <td class={`right ${counts.Failed > 0 ? 'bad' : ''}`}>{ended === 0 ? '' : percent(counts.Failed / ended)}</td>
      <td class="right">{p50Ms === undefined ? '' : duration(p50Ms)}</td>
      <td class="right">{p99Ms === undefined ? '' : duration(p99Ms)}</td>
      <td class="right">{rate(startsPerSecond * 60)}</td>
      <td class={`right ${overdue > 0 ? 'bad' : ''}`}>{overdue === 0 ? '' : count(overdue)}</td>
    </>
  );
}

function percent(share: number): string {
  const of100 = share * 100;
  return `${of100 === 0 || of100 >= 10 ? Math.round(of100) : of100.toFixed(1)} %`;
}
