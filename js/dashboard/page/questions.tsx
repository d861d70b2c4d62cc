// The questions to an instance: updates and queries, or the calls and reads of an entity. The dialog of a question
// shows its answer.

import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import type { EventRow, InstanceAnswer, Question, QuestionAnswer } from '../answers.ts';
import { post } from './api.ts';
import { Dialog } from './dialog.tsx';
import { type FieldDefinition, Fields, type Texts, valuesOf } from './fields.tsx';
import { linkTo } from './route.ts';
import { useServerInfo } from './server-info.ts';
import { hasEnded } from './status.tsx';
import { Value } from './value.tsx';

/** The kind of a question, for the user. */
type Kind = 'update' | 'query' | 'call' | 'read';

interface Form {
  readonly title: string;
  readonly text: string;
  /** Word on the button of the page. */
  readonly word: string;
  /** Label of the field of the name. */
  readonly label: string;
  readonly question: Question;
  readonly values?: Readonly<Record<string, true>>;
}

const FORMS: Readonly<Record<Kind, Form>> = {
  update: {
    title: 'Send an update',
    text: 'A handler of the instance runs, and its result is the answer.',
    word: 'Send an update',
    label: 'Name',
    question: 'update',
  },
  query: {
    title: 'Ask a query',
    text: 'The code of the instance answers. A query changes nothing.',
    word: 'Query',
    label: 'Name',
    question: 'query',
  },
  call: {
    title: 'Call this entity',
    text: 'The handler runs after the calls before it, and its result is the answer.',
    word: 'Call',
    label: 'Handler',
    question: 'update',
    values: { isCall: true },
  },
  read: {
    title: 'Read this entity',
    text: 'A function of the stored state answers. A read changes nothing.',
    word: 'Read',
    label: 'Name of the read',
    question: 'query',
    values: { isRead: true },
  },
};

const INPUT: FieldDefinition = {
  name: 'input',
  label: 'Input',
  kind: 'json',
  note: 'JSON. An empty field is no input.',
};

const ONE_WAY: FieldDefinition = {
  name: 'isOneWay',
  label: 'One way',
  kind: 'choice',
  known: ['true', 'false'],
  placeholder: 'false',
  note: 'The call is stored, and nothing waits for its answer.',
};

const UPDATE_ID: FieldDefinition = {
  name: 'updateId',
  label: 'Update ID',
  kind: 'text',
  note: 'Empty: a new UUID. The ID of an earlier update gets the answer of that one.',
};

/** The names of Perdure's own orchestrations begin with this. Their updates are its own, too. */
const BUILT_IN = 'perdure.';

/** The titles of the events of calls and updates that the instance has received begin with these words. */
const CALL_TITLE = 'call ';
const UPDATE_TITLE = 'update ';

interface QuestionsProps {
  readonly instance: InstanceAnswer;
  readonly events: readonly EventRow[];
}

export function Questions({ instance, events }: QuestionsProps): JSX.Element | null {
  const isReadOnly = useServerInfo()?.readOnly ?? true;
  const [asked, setAsked] = useState<Kind>();
  const kinds = kindsOf(instance, events).filter((kind) => !isReadOnly || FORMS[kind].question === 'query');
  if (kinds.length === 0) return null;
  return (
    <div class="actions" role="group" aria-label="Questions">
      {kinds.map((kind) => (
        <button key={kind} type="button" onClick={() => setAsked(kind)}>
          {FORMS[kind].word}…
        </button>
      ))}
      {asked === undefined ? null : (
        <QuestionDialog
          key={asked}
          kind={asked}
          id={() => instance.id}
          known={() => knownOf(asked, instance, events)}
          isOneWayKnown={instance.entity !== undefined}
          onClose={() => setAsked(undefined)}
        />
      )}
    </div>
  );
}

/** Returns the questions that an instance may answer. A query also asks one that has ended. */
function kindsOf({ name, status, entity }: InstanceAnswer, events: readonly EventRow[]): Kind[] {
  if (name.startsWith(BUILT_IN)) return [];
  // A call makes an entity anew whose definition the server has.
  if (entity !== undefined) return entity.reads.length > 0 ? ['call', 'read'] : ['call'];
  const isOpen = !hasEnded(status);
  if (namesOf(events, CALL_TITLE).length > 0) return isOpen ? ['call'] : [];
  return isOpen ? ['update', 'query'] : ['query'];
}

function knownOf(kind: Kind, { entity }: InstanceAnswer, events: readonly EventRow[]): readonly string[] {
  switch (kind) {
    case 'update':
      return namesOf(events, UPDATE_TITLE);
    case 'call':
      return entity?.handlers ?? namesOf(events, CALL_TITLE);
    case 'read':
      return entity?.reads ?? [];
    case 'query':
      return [];
    default:
      return kind satisfies never;
  }
}

/** Returns the names of the updates or calls that the instance has received. */
function namesOf(events: readonly EventRow[], begin: string): string[] {
  const titles = events.filter(({ kind, title }) => kind === 'QueueReceived' && title?.startsWith(begin));
  return [...new Set(titles.map(({ title = '' }) => title.slice(begin.length)))];
}

interface QuestionDialogProps {
  readonly kind: Kind;
  /** Fields that come before the others. */
  readonly first?: readonly FieldDefinition[];
  readonly texts?: Texts;
  /** True if the dashboard has the definition of the entity, which a one-way call needs. */
  readonly isOneWayKnown: boolean;
  /** Returns the id of the instance that is asked. */
  id(texts: Texts): string;
  /** Returns the names to suggest. */
  known(texts: Texts): readonly string[];
  onClose(): void;
}

function QuestionDialog({ kind, first = [], onClose, ...props }: QuestionDialogProps): JSX.Element {
  const { title, text, word, label, question, values = {} } = FORMS[kind];
  const [texts, setTexts] = useState<Texts>(props.texts ?? {});
  const [answer, setAnswer] = useState<QuestionAnswer>();
  const leaving = useRef(new AbortController());
  /** Id of an update that has no answer yet, as the field got it from here. */
  const awaited = useRef('');
  useEffect(() => () => leaving.current.abort(), []);
  const id = props.id(texts);
  const fields: readonly FieldDefinition[] = [
    { name: 'name', label, kind: 'text', isNeeded: true, known: props.known(texts) },
    INPUT,
    ...(kind === 'call' && props.isOneWayKnown ? [ONE_WAY] : []),
    // A one-way call has no id.
    ...(question === 'update' && texts.isOneWay !== 'true' ? [UPDATE_ID] : []),
  ];
  const submit = async (): Promise<void> => {
    setAnswer(undefined);
    const body = { id, ...valuesOf(fields, texts), ...values };
    const answer = await post<QuestionAnswer>(question, body, leaving.current.signal);
    setAnswer(answer);
    // An update without an answer keeps its id, so that it waits for the same answer when it is sent again.
    const { updateId = '' } = texts;
    if (updateId !== awaited.current) return;
    const next = answer.outcome === 'waiting' ? (answer.updateId ?? '') : '';
    awaited.current = next;
    setTexts((was) => ({ ...was, updateId: next }));
  };
  return (
    <Dialog title={first.length > 0 ? 'Call an entity' : title} button={word} onSubmit={submit} onClose={onClose}>
      {first.length > 0 ? null : (
        <p>
          <code class="id">{id}</code>
        </p>
      )}
      <p>{text}</p>
      <Fields fields={[...first, ...fields]} texts={texts} onTexts={setTexts} />
      <div role="status">{answer === undefined ? null : <Answer answer={answer} />}</div>
      {first.length === 0 || answer === undefined ? null : (
        <a class="id" href={linkTo('instance', { id })}>
          {id}
        </a>
      )}
    </Dialog>
  );
}

/** A button that calls an entity by its key, so that the call may create it. Absent where no definition is known. */
export function CallEntityButton(): JSX.Element | null {
  const about = useServerInfo();
  const [isOpen, setOpen] = useState(false);
  const entities = about?.entities ?? [];
  if (about === undefined || about.readOnly || entities.length === 0) return null;
  const names = entities.map(({ name }) => name);
  const first: readonly FieldDefinition[] = [
    { name: 'entity', label: 'Entity', kind: 'choice', isNeeded: true, known: names },
    { name: 'key', label: 'Key', kind: 'text', isNeeded: true, note: 'The call creates an entity that is not there.' },
  ];
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        Call an entity…
      </button>
      {isOpen ? (
        <QuestionDialog
          kind="call"
          first={first}
          texts={{ entity: names[0] ?? '' }}
          isOneWayKnown
          id={({ entity = '', key = '' }) => `${entity}/${key}`}
          known={({ entity }) => entities.find(({ name }) => name === entity)?.handlers ?? []}
          onClose={() => setOpen(false)}
        />
      ) : null}
    </>
  );
}

export function Answer({ answer: { outcome, value, updateId } }: { answer: QuestionAnswer }): JSX.Element {
  return (
    <section class="answer" aria-label="Answer">
      {outcome === 'waiting' ? (
        <p class="note">
          There is no answer yet. {updateId === undefined ? null : 'The update goes on: send it again to wait for it.'}
        </p>
      ) : outcome === 'sent' ? (
        <p>The call is stored. Its handler runs after the calls before it.</p>
      ) : value === undefined ? (
        <p>The answer is hidden.</p>
      ) : (
        <Value label="Answer" title={outcome === 'error' ? 'Error' : 'Answer'} shown={value} />
      )}
      {updateId === undefined ? null : (
        <p class="faint">
          Update ID <code class="id">{updateId}</code>
        </p>
      )}
    </section>
  );
}
