// The list of instances: filters, and pages that stay stable while instances are started or deleted.

import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

import type { InstanceRow, InstancesAnswer } from '../answers.ts';
import { useAnswer } from './api.ts';
import { BulkButton } from './bulk.tsx';
import { ago, duration, time } from './format.ts';
import { useNow } from './now.ts';
import { Pager, ROWS, useRefresh } from './pager.tsx';
import { Problem } from './problem.tsx';
import { CallEntityButton } from './questions.tsx';
import { linkTo, queryOf } from './route.ts';
import { StartButton } from './start.tsx';
import { hasEnded, STATES, Status } from './status.tsx';

/** Delay after the last key before the filter applies, ms. */
const TYPED_MS = 250;

/** Fields of the filter besides the states; an unused one is empty. */
const TEXTS = ['idPrefix', 'name', 'version', 'tag', 'parentId', 'createdAfter', 'createdBefore', 'system'] as const;

type Texts = Record<(typeof TEXTS)[number], string>;

interface Filter extends Texts {
  readonly status: readonly string[];
}

function filterOf(params: URLSearchParams): Filter {
  const texts = Object.fromEntries(TEXTS.map((name) => [name, params.get(name) ?? ''])) as Texts;
  return { ...texts, status: params.getAll('status') };
}

export function Instances({ params }: { params: URLSearchParams }): JSX.Element {
  const filter = filterOf(params);
  // Cursors of the pages up to this one. The first page has none.
  const cursors = params.getAll('page');
  const cursor = cursors.at(-1) ?? '';
  const { status, createdAfter, createdBefore, ...others } = filter;
  const created = { createdAfter: isoOf(createdAfter), createdBefore: isoOf(createdBefore) };
  const conditions = { ...others, status, ...created };
  const path = `instances?${queryOf({ ...conditions, cursor, limit: ROWS })}`;
  const { answer, error, reload } = useAnswer<InstancesAnswer>(path);
  const go = (page: Filter & { page?: readonly string[] }): void => {
    location.hash = linkTo('instances', { ...page });
  };
  useRefresh(cursor === '', reload);
  return (
    <>
      <div class="head">
        <h1>Instances</h1>
        <span class="tools">
          <button type="button" onClick={reload}>
            Refresh
          </button>
          <BulkButton filter={conditions} onDone={reload} />
          <CallEntityButton />
          <StartButton name={filter.name} />
        </span>
      </div>
      <Filters filter={filter} onChange={go} />
      {error !== undefined ? (
        <Problem error={error} again={reload} />
      ) : answer === undefined ? (
        <p class="empty">Loading…</p>
      ) : (
        <Rows rows={answer.items} isFiltered={queryOf({ ...filter }) !== ''} />
      )}
      <Pager cursors={cursors} of={answer} noun="instances" onPage={(page) => go({ ...filter, page })} />
    </>
  );
}

/** Converts the text of a time field to ISO text. The field has no zone, so the reader's applies. */
function isoOf(local: string): string {
  const at = new Date(local);
  return local === '' || Number.isNaN(at.getTime()) ? '' : at.toISOString();
}

function Filters({ filter, onChange }: { filter: Filter; onChange(filter: Filter): void }): JSX.Element {
  const search = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    const typed = (event: KeyboardEvent): void => {
      if (event.key !== '/' || event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement)
        return;
      event.preventDefault();
      search.current?.focus();
    };
    addEventListener('keydown', typed);
    return () => removeEventListener('keydown', typed);
  }, []);
  const toggle = (state: string): void => {
    onChange({
      ...filter,
      status: filter.status.includes(state) ? filter.status.filter((one) => one !== state) : [...filter.status, state],
    });
  };
  const more = ['version', 'parentId', 'createdAfter', 'createdBefore', 'system'] as const;
  return (
    <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
      <div class="fields">
        <Field label="ID starts with" name="idPrefix" filter={filter} onChange={onChange} field={search} hint="/" />
        <Field label="Orchestration" name="name" filter={filter} onChange={onChange} />
        <Field label="Tag" name="tag" filter={filter} onChange={onChange} placeholder="name:value" />
        <details open={more.some((name) => filter[name] !== '')}>
          <summary>More filters</summary>
          <div class="fields">
            <Field label="Version" name="version" filter={filter} onChange={onChange} />
            <Field label="Children of" name="parentId" filter={filter} onChange={onChange} />
            <Field
              label="Started after"
              name="createdAfter"
              type="datetime-local"
              filter={filter}
              onChange={onChange}
            />
            <Field
              label="Started before"
              name="createdBefore"
              type="datetime-local"
              filter={filter}
              onChange={onChange}
            />
            <BuiltIn filter={filter} onChange={onChange} />
          </div>
        </details>
      </div>
      <fieldset class="chips">
        <legend>Status</legend>
        {STATES.map((state) => (
          <label key={state} class={`chip ${state.toLowerCase()}`}>
            <input type="checkbox" checked={filter.status.includes(state)} onChange={() => toggle(state)} />
            {state}
          </label>
        ))}
        {queryOf({ ...filter }) === '' ? null : (
          <a class="quiet" href={linkTo('instances')}>
            Clear
          </a>
        )}
      </fieldset>
    </form>
  );
}

function BuiltIn({ filter, onChange }: Pick<FieldProps, 'filter' | 'onChange'>): JSX.Element {
  return (
    <label class="chip">
      <input
        type="checkbox"
        checked={filter.system === 'true'}
        onChange={({ currentTarget }) => onChange({ ...filter, system: currentTarget.checked ? 'true' : '' })}
      />
      Built-in orchestrations
    </label>
  );
}

interface FieldProps {
  readonly label: string;
  readonly name: keyof Texts;
  readonly filter: Filter;
  onChange(filter: Filter): void;
  readonly field?: { current: HTMLInputElement | null };
  readonly type?: 'text' | 'datetime-local';
  readonly placeholder?: string;
  readonly hint?: string;
}

function Field({ label, name, filter, onChange, field, type = 'text', placeholder, hint }: FieldProps): JSX.Element {
  const [text, setText] = useState(filter[name]);
  const timer = useRef<number | undefined>(undefined);
  // The filter may also change by a link, or by going back.
  useEffect(() => setText(filter[name]), [filter[name]]);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const typed = (value: string): void => {
    setText(value);
    window.clearTimeout(timer.current);
    // A tag without a colon is not complete.
    if (name === 'tag' && value !== '' && !value.includes(':')) return;
    timer.current = window.setTimeout(() => onChange({ ...filter, [name]: value }), TYPED_MS);
  };
  return (
    <label class="field">
      <span>
        {label}
        {hint === undefined ? null : <kbd aria-hidden="true">{hint}</kbd>}
      </span>
      <input
        ref={field ?? null}
        type={type as 'text'}
        value={text}
        placeholder={placeholder}
        spellcheck={false}
        autocomplete="off"
        maxLength={256}
        aria-keyshortcuts={hint}
        onInput={(event) => typed(event.currentTarget.value)}
      />
    </label>
  );
}

function Rows({ rows, isFiltered }: { rows: readonly InstanceRow[]; isFiltered: boolean }): JSX.Element {
  const now = useNow();
  if (rows.length === 0)
    return (
      <p class="panel empty">
        {isFiltered
          ? 'No instances match these filters.'
          : 'No instances yet. Instances appear here when a client starts them.'}
      </p>
    );
  return (
    <div class="scroll panel flush" tabIndex={0} role="group" aria-label="List of instances">
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">Status</th>
            <th scope="col">ID</th>
            <th scope="col">Orchestration</th>
            <th scope="col">Custom status or error</th>
            <th scope="col">Tags</th>
            <th scope="col">Started</th>
            <th scope="col" class="right">
              Took
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map(
            ({ id, name, version, status, customStatus, error, tags, createdAtMs, completedAtMs, updatedAtMs }) => (
              <tr key={id}>
                <td>
                  <Status of={status} />
                </td>
                <th scope="row" class="id">
                  <a href={linkTo('instance', { id })}>{id}</a>
                </th>
                <td>
                  {name} <span class="faint">{version}</span>
                </td>
                <td class="grow mono" title={error ?? customStatus?.text}>
                  {error === undefined ? customStatus?.text : <span class="bad">{error}</span>}
                </td>
                <td>
                  {Object.entries(tags).map(([key, value]) => (
                    <span key={key} class="tag">
                      {key}:{value}
                    </span>
                  ))}
                </td>
                <td title={time(createdAtMs)}>{ago(createdAtMs, now)}</td>
                <td class="right">{hasEnded(status) ? duration((completedAtMs ?? updatedAtMs) - createdAtMs) : ''}</td>
              </tr>
            ),
          )}
        </tbody>
      </table>
    </div>
  );
}
