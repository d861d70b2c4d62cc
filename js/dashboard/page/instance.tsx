// One instance: its state, its actions, and its history.

import type { JSX } from 'preact';
import { useCallback, useState } from 'preact/hooks';

import type { EventRow, InstanceAnswer, ReportAnswer } from '../answers.ts';
import { Actions, type AskedAction } from './actions.tsx';
import { EventDetails } from './event-details.tsx';
import { EventList } from './event-list.tsx';
import { Executions } from './executions.tsx';
import { Facts } from './facts.tsx';
import { count, words } from './format.ts';
import { useHistory } from './history.ts';
import { Logs } from './logs.tsx';
import { Problem } from './problem.tsx';
import { Questions } from './questions.tsx';
import { linkTo, queryOf } from './route.ts';
import { State } from './state.tsx';
import { hasEnded, Status } from './status.tsx';
import { EventValue } from './step-details.tsx';
import { Streams } from './streams.tsx';
import { Timeline } from './timeline.tsx';
import { Tree } from './tree.tsx';
import { Value } from './value.tsx';
import { Waits } from './waits.tsx';

export function Instance({ id, execution }: { id: string; execution: number | undefined }): JSX.Element {
  const [run, setRun] = useState(0);
  // After an action that may start a new history, everything is read again.
  const again = useCallback(() => setRun((run) => run + 1), []);
  return <Watching key={run} id={id} asked={execution} again={again} />;
}

function Watching({ id, asked, again }: { id: string; asked: number | undefined; again(): void }): JSX.Element {
  const { instance, waits, state, streams, takeovers, execution, events, bars, version, changes, isLive, error, more } =
    useHistory(id, asked);
  const [selected, setSelected] = useState<number>();
  const [action, setAction] = useState<AskedAction>();
  if (instance === undefined)
    return error === undefined ? <p class="empty">Loading…</p> : <Problem error={error} again={again} />;
  return (
    <>
      <Head instance={instance} isLive={isLive} />
      {error === undefined ? null : <Problem error={error} />}
      <div class="actions">
        <Actions
          instance={instance}
          execution={execution}
          events={events}
          asked={action}
          ask={setAction}
          again={again}
        />
        <Questions instance={instance} events={events} />
      </div>
      <Facts instance={instance} />
      {instance.report === undefined ? null : <Report report={instance.report} />}
      {waits === undefined || waits.executionId !== execution || hasEnded(instance.status) ? null : (
        <Waits waits={waits} onSelect={setSelected} ask={setAction} />
      )}
      <Values instance={instance} first={events[0]} execution={execution ?? 1} />
      <State id={id} values={state} />
      <Streams key={instance.createdAtMs} id={id} streams={streams} isEnded={hasEnded(instance.status)} />
      <section class="panel" aria-labelledby="timeline">
        <Executions instance={instance} shown={execution} />
        <Timeline
          id={id}
          execution={execution ?? 1}
          events={events}
          bars={bars}
          takeovers={takeovers}
          version={version}
          isEnded={hasEnded(instance.status) || !bars.isOpen}
          selected={selected}
          onSelect={setSelected}
        />
      </section>
      {execution === undefined ? null : (
        <Logs id={id} execution={execution} lastExecution={instance.executionId} changes={changes} />
      )}
      <History
        id={id}
        execution={execution ?? 1}
        events={events}
        version={version}
        selected={selected}
        more={more}
        onSelect={setSelected}
      />
      <Tree id={id} isKnown={bars.hasChildren || instance.parentId !== undefined} />
    </>
  );
}

function Head({ instance, isLive }: { instance: InstanceAnswer; isLive: boolean }): JSX.Element {
  return (
    <div class="head">
      <nav aria-label="Breadcrumb">
        <a href={linkTo('instances')}>Instances</a>
        {instance.parentId === undefined ? null : (
          <>
            {' '}
            / <a href={linkTo('instance', { id: instance.parentId })}>{instance.parentId}</a>
          </>
        )}{' '}
        /
      </nav>
      <h1 class="id">{instance.id}</h1>
      <Status of={instance.status} />
      {isLive && !hasEnded(instance.status) ? <span class="live">live</span> : null}
    </div>
  );
}

interface HistoryProps {
  readonly id: string;
  readonly execution: number;
  readonly events: readonly EventRow[];
  readonly version: number;
  readonly selected: number | undefined;
  /** Loads more events, if there may be some. */
  readonly more: (() => void) | undefined;
  onSelect(event: number): void;
}

/** The list of all events, and the value of the selected one. */
function History({ id, execution, events, version, selected, more, onSelect }: HistoryProps): JSX.Element {
  const shown = selected === undefined ? undefined : events[selected - 1];
  return (
    <section class="panel" aria-labelledby="history">
      <div class="head">
        <h2 id="history">History</h2>
        <span class="faint">{count(events.length)} events</span>
        {more === undefined ? null : (
          <button type="button" onClick={more}>
            Load more
          </button>
        )}
      </div>
      <div class="split">
        <EventList events={events} version={version} selected={selected} onSelect={onSelect} />
        {shown === undefined ? (
          <p class="empty details">Select an event to see its value.</p>
        ) : (
          <EventDetails
            key={shown.id}
            event={shown}
            events={events}
            id={id}
            execution={execution}
            onSelect={onSelect}
          />
        )}
      </div>
    </section>
  );
}

interface ValuesProps {
  readonly instance: InstanceAnswer;
  /** The first event of the shown execution. */
  readonly first: EventRow | undefined;
  readonly execution: number;
}

/** Input, output, error and custom status, if they are present. */
function Values({
  instance: { id, executionId, customStatus, customStatusVersion, output, error, report },
  first,
  execution,
}: ValuesProps): JSX.Element {
  const whole = (of: string): string => `value?${queryOf({ id, of })}`;
  return (
    <div class="values">
      <section class="panel" aria-labelledby="input">
        <h2 id="input">Input {executionId === 1 ? null : <span class="faint">of execution {execution}</span>}</h2>
        {first === undefined ? (
          <p class="faint">Loading…</p>
        ) : first.value === undefined ? (
          <p class="faint">This execution has no input.</p>
        ) : (
          <EventValue key={execution} event={first} label="Input" context={{ id, execution }} isBare />
        )}
      </section>
      {output === undefined ? null : (
        <section class="panel">
          <h2>Output</h2>
          <Value label="Output" shown={output} whole={whole('output')} />
        </section>
      )}
      {error !== undefined && report === undefined ? (
        <section class="panel wrong">
          <h2>Error</h2>
          <Value label="Error" shown={error} whole={whole('error')} />
        </section>
      ) : null}
      {customStatus === undefined ? null : (
        <section class="panel">
          <h2>
            Custom status <span class="faint">version {customStatusVersion}</span>
          </h2>
          <div aria-live="polite">
            <Value label="Custom status" shown={customStatus} whole={whole('customStatus')} />
          </div>
        </section>
      )}
    </div>
  );
}

/** The reason of a suspension. */
function Report({ report: { code, message, fields } }: { report: ReportAnswer }): JSX.Element {
  return (
    <section class="panel wrong" aria-labelledby="report">
      <h2 id="report">
        Suspended <span class="faint">{code}</span>
      </h2>
      <pre class="message" tabIndex={0} role="group" aria-label="Reason of the suspension">
        {message}
      </pre>
      {fields.length === 0 ? null : (
        <dl class="fields-of">
          {fields.map(({ name, value }) => (
            <div key={name}>
              <dt>{words(name)}</dt>
              <dd>
                <pre>
                  {value.text}
                  {value.isWhole ? '' : '…'}
                </pre>
              </dd>
            </div>
          ))}
        </dl>
      )}
    </section>
  );
}
