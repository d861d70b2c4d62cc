// The actions on an instance. Each opens a dialog first, which says what the action does.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type {
  ActionBodies,
  ChangingAction,
  EventRow,
  InstanceAnswer,
  QueueAction,
  ScheduleAction,
  TokenAction,
} from '../answers.ts';
import { act } from './api.ts';
import { Dialog } from './dialog.tsx';
import { DATA, type FieldDefinition, Fields, REASON, type Texts, valuesOf } from './fields.tsx';
import { linkTo } from './route.ts';
import { useServerInfo } from './server-info.ts';
import { hasEnded } from './status.tsx';

interface ActionsProps {
  readonly instance: InstanceAnswer;
  readonly execution: number | undefined;
  readonly events: readonly EventRow[];
  /** The action whose dialog is open. */
  readonly asked: AskedAction | undefined;
  ask(action: AskedAction | undefined): void;
  again(): void;
}

/** An action that the user is asked to confirm. */
export interface AskedAction {
  readonly action: InstanceAction;
  /** The texts that the fields have at first. */
  readonly texts?: Texts;
}

/** A dialog: its texts and its fields. */
interface Form {
  readonly title: string;
  readonly text: string;
  readonly fields: readonly FieldDefinition[];
  readonly isHarmful?: boolean;
}

/** An action on an instance that exists. */
export type InstanceAction = Exclude<ChangingAction, 'start' | TokenAction | ScheduleAction | QueueAction>;

const CANCEL_TEXT =
  'Its pending steps throw CancelledError, and its code may clean up. ' +
  'A suspended instance ends at once, without cleanup. Its children are cancelled too.';
const SUSPEND_TEXT =
  'Its code stops until the instance is resumed. ' +
  'Its running activities are aborted, and start again after the resume.';

/** The forms that are the same for each instance. */
const FORMS: Readonly<Record<'cancel' | 'terminate' | 'suspend' | 'resume' | 'delete', Form>> = {
  cancel: {
    title: 'Cancel this instance?',
    text: CANCEL_TEXT,
    fields: [REASON],
    isHarmful: true,
  },
  terminate: {
    title: 'Terminate this instance?',
    text: 'The instance ends at once, without cleanup.',
    fields: [REASON],
    isHarmful: true,
  },
  suspend: {
    title: 'Suspend this instance?',
    text: SUSPEND_TEXT,
    fields: [REASON],
  },
  resume: { title: 'Resume this instance?', text: 'The instance continues from its history.', fields: [] },
  delete: {
    title: 'Delete this instance?',
    text: 'The instance is deleted with all its histories. Its children stay.',
    fields: [],
    isHarmful: true,
  },
};

function formOf(
  action: InstanceAction,
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
    case 'restart':
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
      return FORMS[action];
  }
}

/** Returns the names of earlier messages of this instance, as suggestions for another one. */
function namesOf(events: readonly EventRow[], kind: EventRow['kind']): string[] {
  // An event with a title has a name of Perdure's own, which nothing else may be sent to.
  const sent = events.filter((event) => event.kind === kind && event.title === undefined);
  return [...new Set(sent.map(({ name }) => name ?? ''))];
}

/** The words on the buttons of the actions. */
export const LABELS: Readonly<Record<InstanceAction, string>> = {
  raise: 'Raise event',
  enqueue: 'Enqueue',
  cancel: 'Cancel',
  terminate: 'Terminate',
  suspend: 'Suspend',
  resume: 'Resume',
  delete: 'Delete',
  restart: 'Restart',
};

const HARMFUL: ReadonlySet<string> = new Set(['terminate', 'cancel', 'delete']);

function possible({ status }: InstanceAnswer): readonly InstanceAction[] {
  if (hasEnded(status)) return ['restart', 'delete'];
  return ['raise', 'enqueue', status === 'Suspended' ? 'resume' : 'suspend', 'cancel', 'terminate', 'restart'];
}

export function Actions({ instance, execution, events, asked, ask, again }: ActionsProps): JSX.Element | null {
  const about = useServerInfo();
  const [done, setDone] = useState('');
  if (about?.readOnly) return null;
  const finished = (what: InstanceAction, id: string): void => {
    ask(undefined);
    setDone(`${LABELS[what]}: done`);
    if (what === 'delete') location.hash = linkTo('instances');
    else if (id !== instance.id) location.hash = linkTo('instance', { id });
    else if (what === 'restart') again();
  };
  return (
    <div class="actions" role="group" aria-label="Actions">
      {possible(instance).map((one) => (
        <button key={one} type="button" class={HARMFUL.has(one) ? 'harm' : ''} onClick={() => ask({ action: one })}>
          {LABELS[one]}…
        </button>
      ))}
      <span role="status" class="good">
        {done}
      </span>
      {asked === undefined ? null : (
        <ActionDialog
          action={asked.action}
          given={asked.texts ?? {}}
          form={formOf(asked.action, instance, execution, events)}
          id={instance.id}
          execution={execution}
          onClose={() => ask(undefined)}
          onDone={(id) => finished(asked.action, id)}
        />
      )}
    </div>
  );
}

interface ActionDialogProps {
  readonly action: InstanceAction;
  readonly given: Texts;
  readonly form: Form;
  readonly id: string;
  readonly execution: number | undefined;
  onClose(): void;
  onDone(id: string): void;
}

function ActionDialog({ action, given, form, id, execution, onClose, onDone }: ActionDialogProps): JSX.Element {
  const { title, text, fields, isHarmful = false } = form;
  const [texts, setTexts] = useState(given);
  const submit = async (): Promise<void> => {
    const body = {
      id,
      ...(action === 'restart' && execution !== undefined ? { executionId: execution } : {}),
      ...valuesOf(fields, texts),
    };
    onDone((await act(action, body as ActionBodies[typeof action])).id);
  };
  return (
    <Dialog title={title} button={LABELS[action]} isHarmful={isHarmful} onSubmit={submit} onClose={onClose}>
      <p>
        <code class="id">{id}</code>
      </p>
      <p>{text}</p>
      <Fields fields={fields} texts={texts} onTexts={setTexts} />
    </Dialog>
  );
}
