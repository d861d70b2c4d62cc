// An action on all instances that match the filter of the list: a preview of how many they are, the confirmation, and
// the progress.

import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import type { InstanceState } from '../../client/instance-status.ts';
import type { BulkAction, BulkAnswer, PreviewAnswer } from '../answers.ts';
import { LABELS } from './actions.tsx';
import { post, useAnswer } from './api.ts';
import { Dialog } from './dialog.tsx';
import { DATA, type FieldDefinition, Fields, REASON, type Texts, valuesOf } from './fields.tsx';
import { count, words } from './format.ts';
import { queryOf } from './route.ts';
import { useServerInfo } from './server-info.ts';
import { hasEnded, STATES } from './status.tsx';

/** The parameters of the list that filter, as the server takes them. */
export type ListFilter = Readonly<Record<string, string | readonly string[]>>;

const OPEN = STATES.filter((state) => !hasEnded(state));

interface Kind {
  readonly fields: readonly FieldDefinition[];
  /** The states in which the action does something. */
  readonly states: readonly InstanceState[];
  readonly isHarmful?: boolean;
}

const KINDS: Readonly<Record<BulkAction, Kind>> = {
  cancel: { fields: [REASON], states: OPEN, isHarmful: true },
  terminate: { fields: [REASON], states: OPEN, isHarmful: true },
  suspend: { fields: [REASON], states: ['Pending', 'Running'] },
  resume: { fields: [], states: ['Suspended'] },
  raise: { fields: [{ name: 'name', label: 'Name', kind: 'text', isNeeded: true }, DATA], states: OPEN },
  enqueue: { fields: [{ name: 'queue', label: 'Queue', kind: 'text', isNeeded: true }, DATA], states: OPEN },
  delete: { fields: [], states: STATES.filter(hasEnded), isHarmful: true },
};

const ACTIONS = Object.keys(KINDS) as BulkAction[];

/** A button that opens the dialog, unless the dashboard is read-only. */
export function BulkButton({ filter, onDone }: { filter: ListFilter; onDone(): void }): JSX.Element | null {
  const about = useServerInfo();
  const [isOpen, setOpen] = useState(false);
  if (about === undefined || about.readOnly) return null;
  const closed = (): void => {
    setOpen(false);
    onDone();
  };
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        Act on all…
      </button>
      {isOpen ? <BulkDialog filter={filter} onClose={closed} /> : null}
    </>
  );
}

/** Returns the filter with only the states in which the action does something; `undefined` if none are left. */
function narrowed(filter: ListFilter, { states }: Kind): ListFilter | undefined {
  const { status: given = [] } = filter;
  const status = given.length === 0 ? states : states.filter((state) => given.includes(state));
  return status.length === 0 ? undefined : { ...filter, status };
}

function BulkDialog({ filter, onClose }: { filter: ListFilter; onClose(): void }): JSX.Element {
  const [action, setAction] = useState<BulkAction>('cancel');
  const [texts, setTexts] = useState<Texts>({});
  const kind = KINDS[action];
  const narrow = narrowed(filter, kind);
  const { progress, run, stop } = useRun();
  const preview = useAnswer<PreviewAnswer>(narrow === undefined ? undefined : `preview?${queryOf(narrow)}`);
  const found = narrow === undefined || preview.isLoading ? undefined : preview.answer;
  const number = Math.min(found?.count ?? 0, found?.most ?? 0);
  const close = (): void => {
    stop();
    onClose();
  };
  return (
    <Dialog
      title="Act on all matching instances"
      button={progress === undefined ? `${LABELS[action]} (${count(number)} instances)` : LABELS[action]}
      isHarmful={kind.isHarmful ?? false}
      isDisabled={number === 0 || progress !== undefined}
      onSubmit={() => run(action, narrow ?? {}, found, valuesOf(kind.fields, texts))}
      onClose={close}
    >
      {progress === undefined ? (
        <>
          <label class="field">
            <span>Action</span>
            <select value={action} onChange={({ currentTarget: { value } }) => setAction(value as BulkAction)}>
              {ACTIONS.map((one) => (
                <option key={one} value={one}>
                  {LABELS[one]}
                </option>
              ))}
            </select>
          </label>
          <Fields fields={kind.fields} texts={texts} onTexts={setTexts} />
          <Preview filter={filter} kind={kind} isPossible={narrow !== undefined} found={found} />
          {preview.error === undefined || narrow === undefined ? null : (
            <p role="alert" class="problem">
              {preview.error.message}
            </p>
          )}
        </>
      ) : (
        <Progress progress={progress} onStop={stop} />
      )}
    </Dialog>
  );
}

interface PreviewProps {
  readonly filter: ListFilter;
  readonly kind: Kind;
  readonly isPossible: boolean;
  readonly found: PreviewAnswer | undefined;
}

function Preview({ filter, kind: { states }, isPossible, found }: PreviewProps): JSX.Element {
  const conditions = Object.entries(filter)
    .filter(([name, value]) => name !== 'status' && value.length > 0)
    .map(([name, value]) => `${words(name)} ${String(value)}`);
  return (
    <div class="preview">
      <p>
        Filter: <b>{conditions.length === 0 ? 'all instances' : conditions.join(', ')}</b>, of the statuses that the
        action changes: {states.join(', ')}.
      </p>
      <p role="status">
        {!isPossible ? (
          'The statuses of the filter are none of these.'
        ) : found === undefined ? (
          'Counting…'
        ) : (
          <>
            <b>
              {count(found.count)} {found.isMore ? 'or more ' : ''}instances match.
            </b>
            {found.isMore ? ` At most ${count(found.most)} are acted on at once.` : null} Instances that are started
            from now on are left out.
          </>
        )}
      </p>
    </div>
  );
}

interface RunProgress extends Pick<BulkAnswer, 'done' | 'failed' | 'problems'> {
  readonly all: number;
  readonly state: 'running' | 'stopped' | 'ended';
}

function Progress({ progress, onStop }: { progress: RunProgress; onStop(): void }): JSX.Element {
  const { done, failed, problems, all, state } = progress;
  return (
    <>
      <progress max={Math.max(all, done + failed)} value={done + failed} aria-label="Progress of the action" />
      <p role="status">
        {state === 'running' ? '' : state === 'ended' ? 'Finished: ' : 'Stopped: '}
        {count(done)} of {count(Math.max(all, done + failed))} done
        {failed === 0 ? '' : `, ${count(failed)} failed`}.
      </p>
      {problems.length === 0 ? null : (
        <ul class="problems">
          {problems.map(({ id, message }) => (
            <li key={id}>
              <code class="id">{id}</code>: {message}
            </li>
          ))}
        </ul>
      )}
      {state === 'running' ? (
        <button type="button" onClick={onStop}>
          Stop
        </button>
      ) : null}
    </>
  );
}

/** Problems that are listed. */
const PROBLEMS_MAX = 10;

interface Run {
  /** Absent until the run has begun. */
  readonly progress: RunProgress | undefined;
  run(
    action: BulkAction,
    filter: ListFilter,
    found: PreviewAnswer | undefined,
    values: Record<string, unknown>,
  ): Promise<void>;
  /** Stops after the current part. */
  stop(): void;
}

/** Asks the server for one part after the other, until all are done, or the limit is reached. */
function useRun(): Run {
  const [progress, setProgress] = useState<RunProgress>();
  const isStopped = useRef(false);
  const stop = (): void => {
    isStopped.current = true;
  };
  useEffect(() => stop, []);
  return {
    progress,
    stop,
    run: async (action, filter, found, values) => {
      const { createdBefore, count: all = 0, most = 0 } = found ?? {};
      const query = queryOf({ ...filter, createdBefore: createdBefore ?? undefined });
      let now: RunProgress = { all: Math.min(all, most), done: 0, failed: 0, problems: [], state: 'running' };
      setProgress(now);
      let cursor: string | null = null;
      do {
        const part: BulkAnswer = await post<BulkAnswer>('bulk', {
          action,
          filter: query,
          values,
          ...(cursor === null ? {} : { cursor }),
        }).catch((error: unknown) => {
          setProgress({ ...now, state: 'stopped' });
          throw error;
        });
        now = {
          ...now,
          done: now.done + part.done,
          failed: now.failed + part.failed,
          problems: [...now.problems, ...part.problems].slice(0, PROBLEMS_MAX),
        };
        setProgress(now);
        ({ cursor } = part);
      } while (cursor !== null && !isStopped.current && now.done + now.failed < most);
      setProgress({ ...now, state: cursor === null || !isStopped.current ? 'ended' : 'stopped' });
    },
  };
}
