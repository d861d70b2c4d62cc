// The form that creates or changes a schedule. A refusal of the server is shown at the field that it names.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { ScheduleAnswer, ScheduleDetails, ScheduleForm } from '../schedule-answers.ts';
import { act } from './api.ts';
import { Dialog } from './dialog.tsx';
import { type FieldDefinition, Fields, TAGS, type Texts, tagsOf, valuesOf } from './fields.tsx';
import { type ChosenCode, useCode } from './input.tsx';
import { linkTo } from './route.ts';
import { useServerInfo } from './server-info.ts';

/** The begin of the id of an instance that is a schedule. */
const PREFIX = 'perdure.schedule/';

/** A button that opens the form of a new schedule, unless the dashboard is read-only. */
export function NewScheduleButton(): JSX.Element | null {
  const about = useServerInfo();
  const [isOpen, setOpen] = useState(false);
  if (about === undefined || about.readOnly) return null;
  return (
    <>
      <button type="button" class="main" onClick={() => setOpen(true)}>
        New schedule…
      </button>
      {isOpen ? (
        <ScheduleDialog
          schedule={undefined}
          onClose={() => setOpen(false)}
          onDone={(id) => {
            location.hash = linkTo('schedule', { id });
          }}
        />
      ) : null}
    </>
  );
}

type Changed = ScheduleAnswer & { readonly details: ScheduleDetails };

interface ChangeProps {
  readonly schedule: Changed;
  onDone(): void;
}

export function ChangeScheduleButton({ schedule, onDone }: ChangeProps): JSX.Element {
  // The form has the options of the moment at which it was opened.
  const [changed, setChanged] = useState<Changed>();
  return (
    <>
      <button type="button" onClick={() => setChanged(schedule)}>
        Edit… <span class="unseen">the schedule {schedule.name}</span>
      </button>
      {changed === undefined ? null : (
        <ScheduleDialog
          schedule={changed}
          onClose={() => setChanged(undefined)}
          onDone={() => {
            setChanged(undefined);
            onDone();
          }}
        />
      )}
    </>
  );
}

/** The kinds of times, as the form names them. */
const KINDS = ['cron expression', 'interval', 'dates'] as const;

const SCHEDULE_ID: FieldDefinition = { name: 'scheduleId', label: 'ID', kind: 'text', isNeeded: true };

const KIND: FieldDefinition = { name: 'kind', label: 'Due by', kind: 'choice', isNeeded: true, known: KINDS };

const TIMES: Readonly<Record<string, readonly FieldDefinition[]>> = {
  'cron expression': [
    {
      name: 'cron',
      label: 'Cron expression',
      kind: 'text',
      isNeeded: true,
      placeholder: '30 2 * * *',
      note: 'Minute, hour, day of the month, month, day of the week.',
    },
    {
      name: 'timeZone',
      label: 'Time zone',
      kind: 'text',
      placeholder: 'UTC',
      known: Intl.supportedValuesOf('timeZone'),
    },
  ],
  interval: [
    {
      name: 'every',
      label: 'Every',
      kind: 'duration',
      isNeeded: true,
      placeholder: '10m',
      note: 'Such as 30s, 10m, 2h or 1d. Due times are its multiples since 1970.',
    },
    { name: 'offset', label: 'Offset', kind: 'duration', placeholder: '0s', note: 'Added to each due time.' },
  ],
  dates: [
    {
      name: 'at',
      label: 'Dates',
      kind: 'lines',
      isNeeded: true,
      placeholder: '2030-01-31T12:00:00Z',
      note: 'One a line.',
    },
  ],
};

const OPTIONS: readonly FieldDefinition[] = [
  {
    name: 'overlap',
    label: 'Overlap',
    kind: 'choice',
    known: ['skip', 'buffer', 'cancelPrevious', 'allow'],
    placeholder: 'skip',
    note: 'The behaviour at a due time while a run goes on.',
  },
  {
    name: 'catchUp',
    label: 'Catch up',
    kind: 'duration',
    placeholder: '1h',
    note: 'A due time that no worker met within this time is missed.',
  },
  {
    name: 'jitter',
    label: 'Jitter',
    kind: 'duration',
    placeholder: '0s',
    note: 'Each start is late by up to this time.',
  },
  { name: 'startAt', label: 'Not before', kind: 'text', placeholder: '2030-01-31T12:00:00Z' },
  { name: 'endAt', label: 'Not after', kind: 'text', placeholder: '2030-12-31T12:00:00Z' },
  { name: 'maxRuns', label: 'Runs at most', kind: 'number', placeholder: 'no limit' },
  {
    name: 'pauseOnFailure',
    label: 'Pause after a failed run',
    kind: 'choice',
    known: ['true', 'false'],
    placeholder: 'false',
  },
];

const START_OPTIONS: readonly FieldDefinition[] = [
  {
    name: 'id',
    label: 'IDs of the runs begin with',
    kind: 'text',
    placeholder: 'the ID of the schedule',
    note: 'A slash and the due time follow.',
  },
  { name: 'priority', label: 'Priority', kind: 'number', placeholder: '0' },
  { name: 'queue', label: 'Queue', kind: 'text' },
  { name: 'key', label: 'Key in the queue', kind: 'text' },
  { name: 'timeout', label: 'Time limit of each run', kind: 'duration', placeholder: 'no limit' },
  { name: 'gracePeriod', label: 'Grace period', kind: 'duration', note: 'The time for the cleanup after the limit.' },
];

const MORE: readonly FieldDefinition[] = [...OPTIONS, ...START_OPTIONS, TAGS];

interface ScheduleDialogProps {
  /** The schedule that is changed; `undefined` for a new one. */
  readonly schedule: Changed | undefined;
  onClose(): void;
  /** Called with the id of the instance that the schedule is. */
  onDone(id: string): void;
}

function ScheduleDialog({ schedule, onClose, onDone }: ScheduleDialogProps): JSX.Element {
  const details = schedule?.details;
  const isNew = details === undefined;
  const [texts, setTexts] = useState<Texts>(details === undefined ? { kind: KINDS[0] } : textsOf(details.options));
  const [problems, setProblems] = useState<Texts>({});
  const [keepsInput, setKeepsInput] = useState(!isNew);
  const first = jsonOf(details);
  const code = useCode(texts, { isNewest: false, ...(first === undefined ? {} : { first }) });
  const change = (next: Texts): void => {
    setTexts(next);
    setProblems({});
  };
  const submit = async (): Promise<void> => {
    const id = schedule?.id ?? `${PREFIX}${texts.scheduleId}`;
    const options = optionsOf(texts, details?.options, code, keepsInput);
    try {
      await act('setSchedule', { id, options, ...(isNew ? { isNew } : { keepsInput }) });
    } catch (error) {
      code.input.refused(error);
      setProblems(problemsOf(error as Error));
      throw error;
    }
    onDone(id);
  };
  const times = TIMES[texts.kind ?? ''] ?? [];
  return (
    <Dialog
      title={isNew ? 'Create a schedule' : 'Change this schedule'}
      button={isNew ? 'Create' : 'Save'}
      onSubmit={submit}
      onClose={onClose}
    >
      {schedule === undefined ? null : <About schedule={schedule} />}
      <Fields
        fields={isNew ? [SCHEDULE_ID, KIND, ...times] : [KIND, ...times]}
        texts={texts}
        problems={problems}
        onTexts={change}
      />
      <Fields
        fields={code.fields}
        texts={code.texts}
        problems={problems}
        onTexts={(next) => change(code.changed(next))}
      />
      {keepsInput ? <KeptInput onChange={() => setKeepsInput(false)} /> : code.input.element}
      <More texts={texts} problems={problems} onTexts={change} />
    </Dialog>
  );
}

function About({ schedule: { name, details } }: { schedule: Changed }): JSX.Element {
  const { declaredBy } = details;
  return (
    <>
      <p>
        <code class="id">{name}</code>
      </p>
      <p>With other options, due times count from now on. Runs that go on are left alone.</p>
      {declaredBy === undefined ? null : (
        <p class="note">
          The code of the workers {declaredBy} declares this schedule, and sets its options again when it starts.
        </p>
      )}
    </>
  );
}

/** The input of the runs stays in the server until the user wants another one. */
function KeptInput({ onChange }: { onChange(): void }): JSX.Element {
  return (
    <fieldset class="input">
      <legend>Input</legend>
      The runs keep their input.{' '}
      <button type="button" class="quiet" onClick={onChange}>
        Change the input
      </button>
    </fieldset>
  );
}

interface MoreProps {
  readonly texts: Texts;
  readonly problems: Texts;
  onTexts(texts: Texts): void;
}

/** The options that a schedule seldom has. They unfold by themselves if one of them is wrong. */
function More({ texts, problems, onTexts }: MoreProps): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const isWrong = MORE.some(({ name }) => problems[name] !== undefined);
  return (
    <details open={isOpen || isWrong} onToggle={({ currentTarget: { open } }) => setOpen(open)}>
      <summary>More options</summary>
      <Fields fields={MORE} texts={texts} problems={problems} onTexts={onTexts} />
    </details>
  );
}

/** Returns the texts of the fields for a schedule that is changed. */
function textsOf({ start, at, cron, every, ...options }: ScheduleForm): Texts {
  const { tags, input: _, ...others } = start;
  const given = { cron, every, ...options, version: '', ...others };
  const texts = Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]));
  return {
    ...(Object.fromEntries(texts) as Texts),
    kind: KINDS[cron !== undefined ? 0 : every !== undefined ? 1 : 2],
    ...(at === undefined ? {} : { at: at.join('\n') }),
    ...(tags === undefined ? {} : { tags: tagsText(tags) }),
  };
}

function tagsText(tags: Readonly<Record<string, string>>): string {
  return Object.entries(tags)
    .map(([name, value]) => `${name}:${value}`)
    .join(', ');
}

/** Returns the input of the runs as JSON, if it is shown whole and is JSON. */
function jsonOf(details: ScheduleDetails | undefined): string | undefined {
  const input = details?.input;
  if (input === undefined || !input.isWhole) return undefined;
  try {
    JSON.parse(input.text);
    return input.text;
  } catch {
    return undefined;
  }
}

/**
 * Returns the options that the texts of the form stand for.
 *
 * @param before - the options that are changed
 * @throws SyntaxError when a text is not JSON, no number or no tag
 */
function optionsOf(
  texts: Texts,
  before: ScheduleForm | undefined,
  { version, input }: ChosenCode,
  keepsInput: boolean,
): ScheduleForm {
  const { kind = '', name = '', tags = '' } = texts;
  const { tags: tagsBefore } = before?.start ?? {};
  // A tag may have a comma, which the text would take for the end of the tag.
  const isSame = tagsBefore !== undefined && tags === tagsText(tagsBefore);
  return {
    ...valuesOf([...(TIMES[kind] ?? []), ...OPTIONS], texts),
    start: {
      name,
      ...(version === '' ? {} : { version }),
      ...valuesOf(START_OPTIONS, texts),
      ...(isSame ? { tags: tagsBefore } : tags === '' ? {} : { tags: tagsOf(tags) }),
      ...(keepsInput ? {} : input.value()),
    },
  };
}

/** Returns the problem of the field that a refusal names: `schedule: start.queue must …`. */
function problemsOf({ message }: Error): Texts {
  const [, name] = /^(?:the )?schedule[.:] ?(?:start\.)?(\w+)/.exec(message) ?? [];
  return name === undefined ? {} : { [name]: message };
}
