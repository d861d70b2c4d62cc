// The part of a form that names an orchestration and makes its input: a field for each property, if the server knows
// the schema of the input, and otherwise JSON.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { FormAnswer, StartableAnswer } from '../answers.ts';
import { RequestError, useAnswer } from './api.ts';
import { type FieldDefinition, Fields, json, type Texts, valuesOf } from './fields.tsx';
import { queryOf } from './route.ts';
import { fieldsOf, problemsOf } from './schema-form.ts';

const INPUT: FieldDefinition = {
  name: 'input',
  label: 'Input',
  kind: 'json',
  note: 'JSON. An empty field is no input.',
};

/** Separator of an orchestration and its version in the state of the form, so that a change of either is a new form. */
const KEY = ' ';

/** An orchestration that is chosen in a form, with its input. */
export interface ChosenCode {
  /** The fields of the name and the version, and their texts. */
  readonly fields: readonly FieldDefinition[];
  readonly texts: Texts;
  /** Empty if it is left open. */
  readonly version: string;
  readonly input: Input;
  /** Returns the texts after a change. Another orchestration has other versions. */
  changed(next: Texts): Texts;
}

interface CodeOptions {
  /** True if the newest version is chosen at first. Otherwise the version is left open. */
  readonly isNewest: boolean;
  /** JSON of the input that the form has at first. */
  readonly first?: string;
}

/** Chooses the orchestration that the texts `name` and `version` name. */
export function useCode(texts: Texts, { isNewest, first }: CodeOptions): ChosenCode {
  const { answer } = useAnswer<StartableAnswer>('startable');
  const { name = '' } = texts;
  const versions = answer?.items.find((one) => one.name === name)?.versions ?? [];
  const version = texts.version ?? (isNewest ? versions[0] : undefined) ?? '';
  const described = version === '' ? versions[0] : version;
  const form = useAnswer<FormAnswer>(name === '' ? undefined : `form?${queryOf({ name, version: described })}`).answer;
  // The server does not check the input for a version that is left open.
  const isChecked = form?.isChecked === true && version !== '';
  const input = useInput(form && { ...form, isChecked }, `${name}${KEY}${version}`, first);
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
      known: version === '' || versions.includes(version) ? versions : [version, ...versions],
      placeholder: 'the newest that a worker has',
    },
  ];
  return {
    fields,
    texts: { ...texts, version },
    version,
    input,
    changed(next) {
      const { version: _, ...others } = next;
      return next.name === name ? next : others;
    },
  };
}

export interface Input {
  readonly element: JSX.Element;
  /** @throws SyntaxError when a text is not JSON, or no number */
  value(): { input?: unknown };
  /** Shows the issues of a refusal beside their fields. */
  refused(error: unknown): void;
}

/** The part of the form that makes the input: a field for each property, or JSON. */
function useInput(form: FormAnswer | undefined, key: string, first?: string): Input {
  const fields = fieldsOf(form?.schema ?? null);
  const [state, setState] = useState<{ key: string; texts: Texts; text: string; isJson: boolean; problems: Texts }>();
  const { texts, text, isJson, problems } =
    state?.key === key ? state : { texts: {}, text: first ?? '', isJson: first !== undefined, problems: {} };
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
