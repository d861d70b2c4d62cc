// The list of tokens: those that can be resolved, or those that have ended. The page never has the id of a token, which
// is the secret that resolves it.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { TokenAction, TokenRow, TokensAnswer } from '../answers.ts';
import { act, useAnswer } from './api.ts';
import { Dialog } from './dialog.tsx';
import { type FieldDefinition, Fields, type Texts, valuesOf } from './fields.tsx';
import { ago, countdown, time } from './format.ts';
import { useNow } from './now.ts';
import { Pager, ROWS, useRefresh } from './pager.tsx';
import { Problem } from './problem.tsx';
import { linkTo, queryOf } from './route.ts';
import { useServerInfo } from './server-info.ts';

export function Tokens({ params }: { params: URLSearchParams }): JSX.Element {
  const hasEnded = params.get('ended') === 'true';
  const cursors = params.getAll('page');
  const path = `tokens?${queryOf({ open: String(!hasEnded), cursor: cursors.at(-1), limit: ROWS })}`;
  const { answer, error, isLoading, reload } = useAnswer<TokensAnswer>(path);
  // The page of the list that the last action was taken on, and the words about it.
  const [done, setDone] = useState({ on: '', text: '' });
  useRefresh(cursors.length === 0, reload);
  const go = (page: { ended?: string; page?: readonly string[] }): void => {
    location.hash = linkTo('tokens', page);
  };
  const ended = (action: TokenAction): void => {
    setDone({ on: path, text: KINDS[action].done });
    reload();
  };
  return (
    <>
      <div class="head">
        <h1>Tokens</h1>
        <span role="status" class="good">
          {done.on === path ? done.text : ''}
        </span>
        <button type="button" onClick={reload}>
          Refresh
        </button>
      </div>
      <Choice hasEnded={hasEnded} onChoice={(ended) => go(ended ? { ended: 'true' } : {})} />
      {error !== undefined ? (
        <Problem error={error} again={reload} />
      ) : // The tokens of the other choice are not shown meanwhile.
      answer === undefined || (isLoading && answer.items.some(({ status }) => (status === 'open') === hasEnded)) ? (
        <p class="empty">Loading…</p>
      ) : (
        <Rows rows={answer.items} hasEnded={hasEnded} onEnded={ended} />
      )}
      <Pager
        cursors={cursors}
        of={answer}
        noun="tokens"
        onPage={(page) => go({ ...(hasEnded ? { ended: 'true' } : {}), page })}
      />
    </>
  );
}

function Choice({ hasEnded, onChoice }: { hasEnded: boolean; onChoice(hasEnded: boolean): void }): JSX.Element {
  return (
    <form class="filters" onSubmit={(event) => event.preventDefault()}>
      <fieldset class="chips">
        <legend>Which tokens</legend>
        {[false, true].map((one) => (
          <label key={String(one)} class="chip">
            <input type="radio" name="which" checked={hasEnded === one} onChange={() => onChoice(one)} />
            {one ? 'Ended' : 'Open'}
          </label>
        ))}
      </fieldset>
    </form>
  );
}

interface RowsProps {
  readonly rows: readonly TokenRow[];
  readonly hasEnded: boolean;
  onEnded(action: TokenAction): void;
}

function Rows({ rows, hasEnded, onEnded }: RowsProps): JSX.Element {
  const now = useNow();
  const mayAct = useServerInfo()?.readOnly === false && !hasEnded;
  const [asked, setAsked] = useState<{ action: TokenAction; row: TokenRow }>();
  if (rows.length === 0)
    return (
      <p class="panel empty">
        {hasEnded ? 'No token has ended.' : 'No open tokens. A token appears here when an orchestration makes it.'}
      </p>
    );
  return (
    <div class="scroll panel flush" tabIndex={0} role="group" aria-label="List of tokens">
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">Waiting instance</th>
            <th scope="col">Status</th>
            <th scope="col">Data</th>
            <th scope="col">Made</th>
            <th scope="col">{hasEnded ? 'Ended' : 'Times out'}</th>
            <th scope="col">Token</th>
            {mayAct ? <th scope="col">Actions</th> : null}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <Row key={row.token} row={row} now={now}>
              {mayAct ? <EndButtons row={row} onAsk={(action) => setAsked({ action, row })} /> : null}
            </Row>
          ))}
        </tbody>
      </table>
      {asked === undefined ? null : (
        <EndDialog
          {...asked}
          onClose={() => setAsked(undefined)}
          onDone={() => {
            setAsked(undefined);
            onEnded(asked.action);
          }}
        />
      )}
    </div>
  );
}

interface RowProps {
  readonly row: TokenRow;
  readonly now: number;
  readonly children: JSX.Element | null;
}

function Row({ row, now, children }: RowProps): JSX.Element {
  const { token, instanceId, status, data, createdAtMs } = row;
  return (
    <tr>
      <th scope="row" class="id">
        {instanceId === undefined ? (
          <span class="faint">none</span>
        ) : (
          <a href={linkTo('instance', { id: instanceId })}>{instanceId}</a>
        )}
      </th>
      <td>
        <span class={`badge ${status === 'rejected' || status === 'expired' ? 'bad' : ''}`}>{status}</span>
      </td>
      <td class="grow mono" title={data?.text}>
        {data?.text}
      </td>
      <td title={time(createdAtMs)}>{ago(createdAtMs, now)}</td>
      <EndCell row={row} now={now} />
      <td>
        <a href={linkTo('instance', { id: token })}>
          Details <span class="unseen">of a token of {instanceId}</span>
        </a>
      </td>
      {children}
    </tr>
  );
}

/** The time of the end of a token, or the time that is left until then. */
function EndCell({ row: { expiresAtMs, endedAtMs }, now }: Pick<RowProps, 'row' | 'now'>): JSX.Element {
  if (endedAtMs !== undefined) return <td title={time(endedAtMs)}>{ago(endedAtMs, now)}</td>;
  if (expiresAtMs === undefined) return <td class="faint">never</td>;
  return <td title={time(expiresAtMs)}>{expiresAtMs > now ? `in ${countdown(expiresAtMs, now)}` : 'now'}</td>;
}

function EndButtons({ row, onAsk }: { row: TokenRow; onAsk(action: TokenAction): void }): JSX.Element {
  return (
    <td>
      {row.instanceId === undefined
        ? null
        : ACTIONS.map((action) => (
            <button
              key={action}
              type="button"
              class={action === 'rejectToken' ? 'harm' : ''}
              onClick={() => onAsk(action)}
            >
              {KINDS[action].button}… <span class="unseen">a token of {row.instanceId}</span>
            </button>
          ))}
    </td>
  );
}

interface Kind {
  readonly title: string;
  readonly text: string;
  readonly button: string;
  readonly done: string;
  readonly fields: readonly FieldDefinition[];
}

const KINDS: Readonly<Record<TokenAction, Kind>> = {
  resolveToken: {
    title: 'Resolve this token?',
    text: 'The wait for the token ends with this value. A token ends once.',
    button: 'Resolve',
    done: 'The token was resolved.',
    fields: [{ name: 'value', label: 'Value', kind: 'json', note: 'JSON. An empty field is no value.' }],
  },
  rejectToken: {
    title: 'Reject this token?',
    text: 'The wait for the token fails with an error of this message. A token ends once.',
    button: 'Reject',
    done: 'The token was rejected.',
    fields: [{ name: 'message', label: 'Message', kind: 'text', isNeeded: true }],
  },
};

const ACTIONS = Object.keys(KINDS) as TokenAction[];

interface EndDialogProps {
  readonly action: TokenAction;
  readonly row: TokenRow;
  onClose(): void;
  onDone(): void;
}

function EndDialog({
  action,
  row: { token, instanceId: id = '', data },
  onClose,
  onDone,
}: EndDialogProps): JSX.Element {
  const { title, text, button, fields } = KINDS[action];
  const [texts, setTexts] = useState<Texts>({});
  const submit = async (): Promise<void> => {
    const { value, message } = valuesOf(fields, texts);
    if (action === 'resolveToken') await act(action, { id, token, ...(value === undefined ? {} : { value }) });
    else await act(action, { id, token, message: String(message ?? '') });
    onDone();
  };
  return (
    <Dialog title={title} button={button} isHarmful={action === 'rejectToken'} onSubmit={submit} onClose={onClose}>
      <p>
        <code class="id">{id}</code>
      </p>
      {data === undefined ? null : <pre class="message">{data.isWhole ? data.text : `${data.text}…`}</pre>}
      <p>{text}</p>
      <Fields fields={fields} texts={texts} onTexts={setTexts} />
    </Dialog>
  );
}
