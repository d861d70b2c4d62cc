// The actions on a schedule. Each opens a dialog first, which says what the action does.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { ActionAnswer, ActionBodies, ScheduleAction } from '../answers.ts';
import type { ScheduleRow } from '../schedule-answers.ts';
import { act } from './api.ts';
import { Dialog } from './dialog.tsx';
import { type FieldDefinition, Fields, type Texts, valuesOf } from './fields.tsx';
import { count } from './format.ts';

/** An action with a dialog of its own. A schedule is created and changed in a form. */
export type AskedAction = Exclude<ScheduleAction, 'setSchedule'>;

/** An action that the user is asked to confirm. */
export interface AskedSchedule {
  readonly action: AskedAction;
  readonly row: ScheduleRow;
}

/** Returns the actions that run a schedule, or keep it from running. */
export function runActions({ set }: ScheduleRow): readonly AskedAction[] {
  if (set === undefined) return [];
  return ['triggerSchedule', set.paused === undefined ? 'pauseSchedule' : 'resumeSchedule'];
}

interface ActionButtonProps extends AskedSchedule {
  onAsk(asked: AskedSchedule): void;
}

export function ActionButton({ action, row, onAsk }: ActionButtonProps): JSX.Element {
  const { button, isHarmful = false } = KINDS[action];
  return (
    <button type="button" class={isHarmful ? 'harm' : ''} onClick={() => onAsk({ action, row })}>
      {button}… <span class="unseen">the schedule {row.name}</span>
    </button>
  );
}

interface Kind {
  readonly title: string;
  readonly text: string;
  readonly button: string;
  readonly fields: readonly FieldDefinition[];
  readonly isHarmful?: boolean;
}

const BACKFILL: readonly FieldDefinition[] = [
  { name: 'from', label: 'From', kind: 'time', isNeeded: true },
  { name: 'to', label: 'To', kind: 'time', isNeeded: true, note: 'Both are times of your time zone.' },
  {
    name: 'overlap',
    label: 'Overlap',
    kind: 'choice',
    known: ['skip', 'buffer', 'cancelPrevious', 'allow'],
    placeholder: 'that of the schedule',
    note: 'With skip, a due time that comes while a run goes on starts none. With buffer, the runs follow each other.',
  },
];

const KINDS: Readonly<Record<AskedAction, Kind>> = {
  pauseSchedule: {
    title: 'Pause this schedule?',
    text: 'Due times pass without a run until the schedule is resumed. Runs that go on are left alone.',
    button: 'Pause',
    fields: [{ name: 'note', label: 'Note', kind: 'text', note: 'The note is shown while the schedule is paused.' }],
  },
  resumeSchedule: {
    title: 'Resume this schedule?',
    text: 'The schedule is due again from now on. Due times that have passed are not made up for.',
    button: 'Resume',
    fields: [],
  },
  triggerSchedule: {
    title: 'Run this schedule now?',
    text: 'The schedule starts a run. If another run goes on, the overlap of the schedule decides.',
    button: 'Run now',
    fields: [],
  },
  backfillSchedule: {
    title: 'Backfill this schedule',
    text: 'The due times between two times are run, at most 1,000. Those that had a run before are not run again.',
    button: 'Backfill',
    fields: BACKFILL,
  },
  deleteSchedule: {
    title: 'Delete this schedule?',
    text:
      'The schedule is deleted with its recent due times. Runs that go on are left alone, and buffered ones are ' +
      'dropped. A schedule that code declares is created again when that code starts.',
    button: 'Delete',
    fields: [],
    isHarmful: true,
  },
};

interface ActionDialogProps extends AskedSchedule {
  onClose(): void;
  /** Called with words about what was done. */
  onDone(action: AskedAction, text: string): void;
}

export function ActionDialog({ action, row: { id, name }, onClose, onDone }: ActionDialogProps): JSX.Element {
  const { title, text, button, fields, isHarmful = false } = KINDS[action];
  const [texts, setTexts] = useState<Texts>({});
  const submit = async (): Promise<void> => {
    const body = { id, ...valuesOf(fields, texts) } as ActionBodies[typeof action];
    onDone(action, doneText(action, name, await act(action, body)));
  };
  return (
    <Dialog title={title} button={button} isHarmful={isHarmful} onSubmit={submit} onClose={onClose}>
      <p>
        <code class="id">{name}</code>
      </p>
      <p>{text}</p>
      <Fields fields={fields} texts={texts} onTexts={setTexts} />
    </Dialog>
  );
}

function doneText(action: AskedAction, name: string, { run, dues = {} }: ActionAnswer): string {
  switch (action) {
    case 'pauseSchedule':
      return `${name} is paused.`;
    case 'resumeSchedule':
      return `${name} is resumed.`;
    case 'deleteSchedule':
      return `${name} is deleted.`;
    case 'backfillSchedule': {
      const parts = Object.entries(dues).map(([outcome, number]) => `${count(number)} ${outcome}`);
      return parts.length === 0 ? 'There are no due times between these times.' : `Due times: ${parts.join(', ')}.`;
    }
    case 'triggerSchedule':
      if (run?.outcome === 'skipped') return `${name} starts no run, because another one goes on.`;
      if (run?.outcome === 'buffered') return `${name} starts a run when the present one has ended.`;
      return `${name} has started ${run?.id}.`;
    default:
      return action satisfies never;
  }
}
