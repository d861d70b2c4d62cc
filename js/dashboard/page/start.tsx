// The start of a new instance: a form from the schema of the input, if the server knows it, and otherwise JSON.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { FormAnswer, StartableAnswer } from '../answers.ts';
import { act, RequestError, useAnswer } from './api.ts';
import { Dialog } from './dialog.tsx';
import { type FieldDefinition, Fields, json, type Texts, valuesOf } from './fields.tsx';
import { linkTo, queryOf } from './route.ts';
import { fieldsOf, problemsOf } from './schema-form.ts';
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
const TAGS: FieldDefinition = {
  name: 'tags',
  label: 'Tags',
  kind: 'text',
  placeholder: 'team:billing, region:eu',
};
const INPUT: FieldDefinition = {
  name: 'input',
  label: 'Input',
  kind: 'json',
  note: 'JSON. An empty field is no input.',
};

/** Separator of an orchestration and its version in the state of the form, so that a change of either is a new form. */
const KEY = ' ';

function StartDialog({ name: given, onClose }: { name: string; onClose(): void }): JSX.Element {
  const { answer } = useAnswer<StartableAnswer>('startable');
  const [texts, setTexts] = useState<Texts>({ name: given });
  const { name = '' } = texts;
  const versions = answer?.items.find((one) => one.name === name)?.versions ?? [];
  const version = texts.version ?? versions[0] ?? '';
  const form = useAnswer<FormAnswer>(name === '' ? undefined : `form?${queryOf({ name, version })}`).answer;
  const input = useInput(form, `${name}${KEY}${version}`);
  const fields: readonly FieldDefinition[] = [
    {
      name: 'name',
      label: 'Orchestration',
      kind: 'text',
      isNeeded: true,
      known: (answer?.items ?? []).map((one) => one.name),
    },
    {
      name: 'version',
      label: 'Version',
      kind: versions.length === 0 ? 'text' : 'choice',
      known: versions,
      placeholder: 'the newest that a worker has',
    },
    ID,
  ];
  const submit = async (): Promise<void> => {
    const { id, tags } = texts;
    const body = {
      name,
      ...(version === '' ? {} : { version }),
      ...(id ? { id } : {}),
      ...(tags ? { tags: tagsOf(tags) } : {}),
      ...input.value(),
    };
    try {
      location.hash = linkTo('instance', { id: (await act('start', body)).id });
      onClose();
    } catch (error) {
      input.refused(error);
      throw error;
    }
  };
  // Another orchestration has other versions.
  const changed = (next: Texts): void => {
    const { version: _, ...others } = next;
    setTexts(next.name === name ? next : others);
  };
  return (
    <Dialog title="Start an instance" button="Start" onSubmit={submit} onClose={onClose}>
      <Fields fields={fields} texts={{ ...texts, version }} onTexts={changed} />
      {input.element}
      <Fields fields={[TAGS]} texts={texts} onTexts={setTexts} />
    </Dialog>
  );
}

interface Input {
  readonly element: JSX.Element;
  /** @throws SyntaxError when a text is not JSON, or no number */
  value(): { input?: unknown };
  /** Shows the issues of a refusal beside their fields. */
  refused(error: unknown): void;
}

/** The part of the form that makes the input: a field for each property, or JSON. */
function useInput(form: FormAnswer | undefined, key: string): Input {
  const fields = fieldsOf(form?.schema ?? null);
  const [state, setState] = useState<{ key: string; texts: Texts; text: string; isJson: boolean; problems: Texts }>();
  const { texts, text, isJson, problems } =
    state?.key === key ? state : { texts: {}, text: '', isJson: false, problems: {} };
  const change = (next: Partial<NonNullable<typeof state>>): void =>
    setState({ key, texts, text, isJson, problems, ...next });
  const isForm = fields !== undefined && !isJson;
  const valueOfForm = (): Record<string, unknown> => valuesOf(fields ?? [], texts);
  const toJson = (): void => {
    let text = '';
    try {
      text = JSON.stringify(valueOfForm(), null, 2);
    } catch {
      // A text of the form is not complete. The JSON begins empty.
    }
    change({ isJson: true, text, problems: {} });
  };
  return {
    value: () => (isForm ? { input: valueOfForm() } : text.trim() === '' ? {} : { input: json(text, 'Input') }),
    refused: (error) =>
      change({ problems: error instanceof RequestError ? problemsOf(error.issues, isForm ? fields : []) : {} }),
    element: (
      <fieldset class="input">
        <legend>
          Input {form?.isChecked ? <span class="faint">checked by the schema of the definition</span> : null}
        </legend>
        {isForm ? (
          <Fields
            fields={fields}
            texts={texts}
            problems={problems}
            onTexts={(texts) => change({ texts, problems: {} })}
          />
        ) : (
          <Fields fields={[INPUT]} texts={{ input: text }} onTexts={({ input = '' }) => change({ text: input })} />
        )}
        {fields === undefined ? null : (
          <button type="button" class="quiet" onClick={isJson ? () => change({ isJson: false }) : toJson}>
            {isJson ? 'Edit as a form' : 'Edit as JSON'}
          </button>
        )}
      </fieldset>
    ),
  };
}

/**
 * Returns the tags of a text such as `team:billing, region:eu`.
 *
 * @throws SyntaxError when a part has no colon
 */
function tagsOf(text: string): Record<string, string> {
  const parts = text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  return Object.fromEntries(
    parts.map((part) => {
      const at = part.indexOf(':');
      if (at < 1) throw new SyntaxError(`'${part}' is no tag: write name:value`);
      return [part.slice(0, at).trim(), part.slice(at + 1).trim()];
    }),
  );
}
