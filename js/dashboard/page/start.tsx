// The start of a new instance, by itself or with its first message: a form from the schema of the input, if the server
// knows it, and otherwise JSON.

import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import type { ActionBodies, QuestionAnswer } from '../answers.ts';
import { act, post } from './api.ts';
import { Dialog } from './dialog.tsx';
import { DATA, type FieldDefinition, Fields, json, TAGS, type Texts, tagsOf } from './fields.tsx';
import { type ChosenCode, useCode } from './input.tsx';
import { Answer } from './questions.tsx';
import { linkTo } from './route.ts';
import { useServerInfo } from './server-info.ts';

/** A button that opens the form, unless the dashboard is read-only. */
export function StartButton({ name = '' }: { name?: string }): JSX.Element | null {
  const about = useServerInfo();
  const [isOpen, setOpen] = useState(false);
  if (about === undefined || about.readOnly) return null;
  return (
    <>
      <button type="button" class="main" onClick={() => setOpen(true)}>
        Start…
      </button>
      {isOpen ? <StartDialog name={name} onClose={() => setOpen(false)} /> : null}
    </>
  );
}

const ID: FieldDefinition = { name: 'id', label: 'ID', kind: 'text', note: 'Empty: a new UUID.' };

/** The messages that an instance can be started with, as the form names them. */
const MESSAGES = ['event', 'queue message', 'update'] as const;

const MESSAGE: FieldDefinition = {
  name: 'message',
  label: 'First message',
  kind: 'choice',
  known: MESSAGES,
  placeholder: 'none',
  note: 'The start and the message are one commit. An instance that is there already receives the message alone.',
};

function messageFields(message: string): readonly FieldDefinition[] {
  if (message === '') return [MESSAGE];
  const label = message === 'queue message' ? 'Queue' : `Name of the ${message}`;
  const name: FieldDefinition = { name: 'messageName', label, kind: 'text', isNeeded: true };
  return [MESSAGE, name, { ...DATA, name: 'messageData', label: 'Data of the message' }];
}

interface StartDialogProps {
  /** Name of the orchestration that the form has at first. */
  readonly name: string;
  onClose(): void;
}

function StartDialog({ name, onClose }: StartDialogProps): JSX.Element {
  const [texts, setTexts] = useState<Texts>({ name });
  const [answer, setAnswer] = useState<QuestionAnswer>();
  const leaving = useRef(new AbortController());
  useEffect(() => () => leaving.current.abort(), []);
  const code = useCode(texts, { isNewest: true });
  const { id = '', message = '' } = texts;
  const change = (next: Texts): void => {
    setTexts(next);
    setAnswer(undefined);
  };
  const submit = async (): Promise<void> => {
    try {
      const body = bodyOf(texts, code);
      if (message !== 'update') {
        location.hash = linkTo('instance', { id: await started(message, body) });
        return onClose();
      }
      // An update that has no answer yet is sent again, to wait for the answer.
      const again = answer?.outcome === 'waiting' ? { id: answer.instanceId, updateId: answer.updateId } : {};
      setAnswer(await post<QuestionAnswer>('update', { ...body, ...again }, leaving.current.signal));
    } catch (error) {
      code.input.refused(error);
      throw error;
    }
  };
  const instanceId = answer?.instanceId ?? id;
  return (
    <Dialog title="Start an instance" button="Start" onSubmit={submit} onClose={onClose}>
      <Fields fields={[...code.fields, ID]} texts={code.texts} onTexts={(next) => change(code.changed(next))} />
      {code.input.element}
      <Fields fields={[TAGS, ...messageFields(message)]} texts={texts} onTexts={change} />
      <div role="status">
        {answer === undefined ? null : (
          <>
            <Answer answer={answer} />
            <a class="id" href={linkTo('instance', { id: instanceId })}>
              {instanceId}
            </a>
          </>
        )}
      </div>
    </Dialog>
  );
}

/** Starts an instance, by itself or with an event or a message of a queue. Returns its id. */
async function started(message: string, body: object): Promise<string> {
  const action = message === '' ? 'start' : message === 'event' ? 'raise' : 'enqueue';
  return (await act(action, body as ActionBodies[typeof action])).id;
}

/**
 * Returns the body of the start, or of the message that starts the instance.
 *
 * @throws SyntaxError when a text is not JSON, no number or no tag
 */
function bodyOf({ name = '', id = '', tags = '', ...texts }: Texts, { version, input }: ChosenCode): object {
  const { message = '', messageName = '', messageData = '' } = texts;
  const start = {
    name,
    ...(version === '' ? {} : { version }),
    ...(tags === '' ? {} : { tags: tagsOf(tags) }),
    ...input.value(),
  };
  const address = id === '' ? {} : { id };
  if (message === '') return { ...address, ...start };
  const data = messageData === '' ? undefined : json(messageData, 'Data of the message');
  return {
    ...address,
    [message === 'queue message' ? 'queue' : 'name']: messageName,
    ...(data === undefined ? {} : { [message === 'update' ? 'input' : 'data']: data }),
    start,
  };
}
