// The list of the queues, and the actions on one: pause and resume.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { QueueAction, QueueRow, QueuesAnswer } from '../answers.ts';
import { act, useAnswer } from './api.ts';
import { Dialog } from './dialog.tsx';
import { ago, count, time } from './format.ts';
import { useNow } from './now.ts';
import { useRefresh } from './pager.tsx';
import { Problem } from './problem.tsx';
import { useServerInfo } from './server-info.ts';

export function Queues(): JSX.Element {
  const { answer, error, reload } = useAnswer<QueuesAnswer>('queues');
  // The words about the last action.
  const [done, setDone] = useState('');
  useRefresh(true, reload);
  return (
    <>
      <div class="head">
        <h1>Queues</h1>
        <span role="status">{done}</span>
        <button type="button" onClick={reload}>
          Refresh
        </button>
      </div>
      {error !== undefined ? (
        <Problem error={error} again={reload} />
      ) : answer === undefined ? (
        <p class="empty">Loading…</p>
      ) : (
        <Table
          rows={answer.items}
          onDone={(text) => {
            setDone(text);
            reload();
          }}
        />
      )}
    </>
  );
}

interface TableProps {
  readonly rows: readonly QueueRow[];
  onDone(text: string): void;
}

function Table({ rows, onDone }: TableProps): JSX.Element {
  const now = useNow();
  const mayAct = useServerInfo()?.readOnly === false;
  const [asked, setAsked] = useState<{ action: QueueAction; name: string }>();
  if (rows.length === 0)
    return <p class="panel empty">No queues. A queue appears here when a client or a runtime sets its limits.</p>;
  return (
    <div class="scroll panel flush" tabIndex={0} role="group" aria-label="List of queues">
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">Queue</th>
            <th scope="col" class="right" title="Instances that have a slot">
              Running
            </th>
            <th scope="col" class="right" title="Instances that wait for a slot">
              Waiting
            </th>
            <th scope="col" class="right" title="Instances whose start time has not come">
              Delayed
            </th>
            <th scope="col" class="right" title="Instances that the rate of the queue lets begin now">
              Tokens
            </th>
            <th scope="col">Oldest wait</th>
            <th scope="col">Limits</th>
            {mayAct ? <th scope="col">Actions</th> : null}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <Row key={row.name} row={row} now={now}>
              {mayAct ? <Button row={row} onAsk={(action) => setAsked({ action, name: row.name })} /> : null}
            </Row>
          ))}
        </tbody>
      </table>
      {asked === undefined ? null : (
        <ActionDialog
          {...asked}
          onClose={() => setAsked(undefined)}
          onDone={(text) => {
            setAsked(undefined);
            onDone(text);
          }}
        />
      )}
    </div>
  );
}

interface RowProps {
  readonly row: QueueRow;
  readonly now: number;
  readonly children: JSX.Element | null;
}

function Row({ row, now, children }: RowProps): JSX.Element {
  const { name, limits, waiting, delayed, running, slots, tokens, oldestMs, pausedMs } = row;
  return (
    <tr>
      <th scope="row" class="id">
        {name}{' '}
        {pausedMs === undefined ? null : (
          <span class="badge" title={`since ${time(pausedMs)}`}>
            paused
          </span>
        )}
      </th>
      <td class="right">
        {count(running)}
        {slots === undefined ? null : <span class="faint"> of {count(slots)}</span>}
      </td>
      <td class="right">{count(waiting)}</td>
      <td class="right">{count(delayed)}</td>
      <td class="right">{tokens === undefined ? <span class="faint">no rate</span> : count(tokens)}</td>
      {oldestMs === undefined ? <td class="faint">none</td> : <td title={time(oldestMs)}>{ago(oldestMs, now)}</td>}
      <td>{limits}</td>
      {children}
    </tr>
  );
}

function Button({ row, onAsk }: { row: QueueRow; onAsk(action: QueueAction): void }): JSX.Element {
  const action = row.pausedMs === undefined ? 'pauseQueue' : 'resumeQueue';
  return (
    <td>
      <button type="button" onClick={() => onAsk(action)}>
        {KINDS[action].button}… <span class="unseen">the queue {row.name}</span>
      </button>
    </td>
  );
}

interface Kind {
  readonly title: string;
  readonly text: string;
  readonly button: string;
  /** The words about the queue after the action. */
  readonly done: string;
}

const KINDS: Readonly<Record<QueueAction, Kind>> = {
  pauseQueue: {
    title: 'Pause this queue?',
    text: 'The queue gives no slot until it is resumed. Instances and attempts that have a slot go on.',
    button: 'Pause',
    done: 'is paused',
  },
  resumeQueue: {
    title: 'Resume this queue?',
    text: 'The queue gives slots again, within its limits.',
    button: 'Resume',
    done: 'is resumed',
  },
};

interface ActionDialogProps {
  readonly action: QueueAction;
  readonly name: string;
  onClose(): void;
  onDone(text: string): void;
}

function ActionDialog({ action, name, onClose, onDone }: ActionDialogProps): JSX.Element {
  const { title, text, button, done } = KINDS[action];
  const submit = async (): Promise<void> => {
    await act(action, { id: name });
    onDone(`${name} ${done}.`);
  };
  return (
    <Dialog title={title} button={button} onSubmit={submit} onClose={onClose}>
      <p>
        <code class="id">{name}</code>
      </p>
      <p>{text}</p>
    </Dialog>
  );
}
