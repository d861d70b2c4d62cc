// The actions on an instance. Each opens a dialog first, which says what the action does.

import type { JSX } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

import type { ActionBodies, ChangingAction, EventRow, InstanceAnswer } from '../answers.ts';
import { act, type RequestError } from './api.ts';
import { linkTo } from './route.ts';
import { useServerInfo } from './server-info.ts';
import { hasEnded } from './status.tsx';

interface ActionsProps {
  readonly instance: InstanceAnswer;
  readonly execution: number | undefined;
  readonly events: readonly EventRow[];
  again(): void;
}

/** A dialog: its texts and its fields. */
interface Form {
  readonly title: string;
  readonly text: string;
  readonly fields: readonly FieldDefinition[];
  readonly isHarmful?: boolean;
}

interface FieldDefinition {
  readonly name: string;
  readonly label: string;
  readonly kind: 'text' | 'json';
  readonly isNeeded?: boolean;
  /** Suggested values. */
  readonly known?: readonly string[];
  readonly note?: string;
}

const REASON: FieldDefinition = {
  name: 'reason',
  label: 'Reason',
  kind: 'text',
  note: 'The reason is stored with the instance.',
};
const DATA: FieldDefinition = {
  name: 'data',
  label: 'Data',
  kind: 'json',
  note: 'JSON. An empty field sends no data.',
};

const CANCEL_TEXT =
  'Its pending steps throw CancelledError, and its code may clean up. ' +
  'A suspended instance ends at once, without cleanup. Its children are cancelled too.';
const SUSPEND_TEXT =
  'Its code stops until the instance is resumed. ' +
  'Its running activities are aborted, and start again after the resume.';

function formOf(
  action: ChangingAction,
  { id, version }: InstanceAnswer,
  execution: number | undefined,
  events: readonly EventRow[],
): Form {
  switch (action) {
    case 'raise':
      return {
        title: 'Raise an event',
        text: 'The instance receives the event when it waits for an event of this name.',
        fields: [
          { name: 'name', label: 'Name', kind: 'text', isNeeded: true, known: namesOf(events, 'EventReceived') },
          DATA,
        ],
      };
    case 'enqueue':
      return {
        title: 'Enqueue a message',
        text: 'One dequeue of this queue receives the message. Messages are delivered in order.',
        fields: [
          { name: 'queue', label: 'Queue', kind: 'text', isNeeded: true, known: namesOf(events, 'QueueReceived') },
          DATA,
        ],
      };
    case 'cancel':
      return {
        title: 'Cancel this instance?',
        text: CANCEL_TEXT,
        fields: [REASON],
        isHarmful: true,
      };
    case 'terminate':
      return {
        title: 'Terminate this instance?',
        text: 'The instance ends at once, without cleanup.',
        fields: [REASON],
        isHarmful: true,
      };
    case 'suspend':
      return {
        title: 'Suspend this instance?',
        text: SUSPEND_TEXT,
        fields: [REASON],
      };
    case 'resume':
      return { title: 'Resume this instance?', text: 'The instance continues from its history.', fields: [] };
    case 'start':
      return {
        title: 'Restart this instance?',
        text:
          'The orchestration starts from the beginning, with the same tags and the input of execution ' +
          `${execution ?? 1}. A restart under the same id deletes the existing histories.`,
        fields: [
          {
            name: 'newId',
            label: 'New ID',
            kind: 'text',
            note: `Empty: the same ID, ${id}. The instance must have ended.`,
          },
          { name: 'version', label: 'Version', kind: 'text', note: `Empty: ${version}.` },
        ],
        isHarmful: true,
      };
    default:
      return action satisfies never;
  }
}

/** Returns the names of earlier messages of this instance, as suggestions for another one. */
function namesOf(events: readonly EventRow[], kind: EventRow['kind']): string[] {
  return [...new Set(events.filter((event) => event.kind === kind).map(({ name }) => name ?? ''))];
}

const LABELS: Readonly<Record<ChangingAction, string>> = {
  raise: 'Raise event',
  enqueue: 'Enqueue',
  cancel: 'Cancel',
  terminate: 'Terminate',
  suspend: 'Suspend',
  resume: 'Resume',
  start: 'Restart',
};

function possible({ status }: InstanceAnswer): readonly ChangingAction[] {
  if (hasEnded(status)) return ['start'];
  return ['raise', 'enqueue', status === 'Suspended' ? 'resume' : 'suspend', 'cancel', 'terminate', 'start'];
}

export function Actions({ instance, execution, events, again }: ActionsProps): JSX.Element | null {
  const about = useServerInfo();
  const [action, setAction] = useState<ChangingAction>();
  const [done, setDone] = useState('');
  if (about?.readOnly) return null;
  const finished = (what: ChangingAction, id: string): void => {
    setAction(undefined);
    setDone(`${LABELS[what]}: done`);
    if (id !== instance.id) location.hash = linkTo('instance', { id });
    else if (what === 'start') again();
  };
  return (
    <div class="actions" role="group" aria-label="Actions">
      {possible(instance).map((one) => (
        <button
          key={one}
          type="button"
          class={one === 'terminate' || one === 'cancel' ? 'harm' : ''}
          onClick={() => setAction(one)}
        >
          {LABELS[one]}…
        </button>
      ))}
      <span role="status" class="good">
        {done}
      </span>
      {action === undefined ? null : (
        <ActionDialog
          action={action}
          form={formOf(action, instance, execution, events)}
          id={instance.id}
          execution={execution}
          onClose={() => setAction(undefined)}
          onDone={(id) => finished(action, id)}
        />
      )}
    </div>
  );
}

interface ActionDialogProps {
  readonly action: ChangingAction;
  readonly form: Form;
  readonly id: string;
  readonly execution: number | undefined;
  onClose(): void;
  onDone(id: string): void;
}

function ActionDialog({
  action,
  form: { title, text, fields, isHarmful = false },
  id,
  execution,
  onClose,
  onDone,
}: ActionDialogProps): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>({});
  const [problem, setProblem] = useState('');
  const [isBusy, setBusy] = useState(false);
  useLayoutEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    // Return the focus to the element that had it before.
    return () => (before instanceof HTMLElement ? before.focus() : undefined);
  }, []);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    try {
      const body = {
        id,
        ...(action === 'start' && execution !== undefined ? { executionId: execution } : {}),
        ...valuesOf(fields, texts),
      };
      onDone((await act(action, body as ActionBodies[typeof action])).id);
    } catch (error) {
      setProblem((error as RequestError | SyntaxError).message);
      setBusy(false);
    }
  };
  return (
    <dialog ref={dialog} aria-labelledby="ask" onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <h2 id="ask">{title}</h2>
        <p>
          <code class="id">{id}</code>
        </p>
        <p>{text}</p>
        {fields.map((field) => (
          <Field
            key={field.name}
            field={field}
            text={texts[field.name] ?? ''}
            onText={(value) => setTexts({ ...texts, [field.name]: value })}
          />
        ))}
        {problem === '' ? null : (
          <p role="alert" class="problem">
            {problem}
          </p>
        )}
        <p class="tools">
          <button type="button" onClick={() => dialog.current?.close()}>
            Close
          </button>
          <button type="submit" class={isHarmful ? 'harm main' : 'main'} disabled={isBusy}>
            {LABELS[action]}
          </button>
        </p>
      </form>
    </dialog>
  );
}

interface FieldProps {
  readonly field: FieldDefinition;
  readonly text: string;
  onText(text: string): void;
}

function Field({
  field: { name, label, kind, isNeeded = false, known = [], note },
  text,
  onText,
}: FieldProps): JSX.Element {
  return (
    <label class="field">
      <span>{label}</span>
      {kind === 'json' ? (
        <textarea rows={5} spellcheck={false} value={text} onInput={({ currentTarget: { value } }) => onText(value)} />
      ) : (
        <input
          type="text"
          required={isNeeded}
          maxLength={256}
          list={`known-${name}`}
          autocomplete="off"
          spellcheck={false}
          value={text}
          onInput={({ currentTarget: { value } }) => onText(value)}
        />
      )}
      {known.length === 0 ? null : (
        <datalist id={`known-${name}`}>
          {known.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
      {note === undefined ? null : <span class="faint">{note}</span>}
    </label>
  );
}

/** @throws SyntaxError when a text is not JSON */
function valuesOf(
  fields: readonly FieldDefinition[],
  texts: Readonly<Record<string, string>>,
): Record<string, unknown> {
  const given = fields.filter(({ name }) => (texts[name] ?? '') !== '');
  return Object.fromEntries(
    given.map(({ name, kind, label }) => [name, kind === 'json' ? json(texts[name] ?? '', label) : texts[name]]),
  );
}

function json(text: string, label: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new SyntaxError(`${label} is not JSON: ${(error as Error).message}`);
  }
}
