// The fields of a form, and the values that their texts stand for.

import type { JSX } from 'preact';

export interface FieldDefinition {
  readonly name: string;
  readonly label: string;
  /**
   * The value of `lines` is a list of texts, that of `time` an ISO text of a time in the reader's zone, and that of
   * `duration` a number if the text is one.
   */
  readonly kind: 'text' | 'json' | 'lines' | 'number' | 'time' | 'duration' | 'choice';
  readonly isNeeded?: boolean;
  /** Suggested values; for a choice all values. */
  readonly known?: readonly string[];
  readonly note?: string;
  readonly placeholder?: string;
}

export const REASON: FieldDefinition = {
  name: 'reason',
  label: 'Reason',
  kind: 'text',
  note: 'The reason is stored with the instance.',
};

export const DATA: FieldDefinition = {
  name: 'data',
  label: 'Data',
  kind: 'json',
  note: 'JSON. An empty field sends no data.',
};

export const TAGS: FieldDefinition = {
  name: 'tags',
  label: 'Tags',
  kind: 'text',
  placeholder: 'team:billing, region:eu',
};

/** The texts of fields, by their names. */
export type Texts = Readonly<Record<string, string>>;

interface FieldsProps {
  readonly fields: readonly FieldDefinition[];
  readonly texts: Texts;
  /** Problems by the names of the fields. */
  readonly problems?: Texts;
  onTexts(texts: Texts): void;
}

export function Fields({ fields, texts, problems = {}, onTexts }: FieldsProps): JSX.Element {
  return (
    <>
      {fields.map((field) => (
        <Field
          key={field.name}
          field={field}
          text={texts[field.name] ?? ''}
          problem={problems[field.name]}
          onText={(value) => onTexts({ ...texts, [field.name]: value })}
        />
      ))}
    </>
  );
}

interface FieldProps {
  readonly field: FieldDefinition;
  readonly text: string;
  readonly problem: string | undefined;
  onText(text: string): void;
}

function Field({ field, text, problem, onText }: FieldProps): JSX.Element {
  const { name, label, kind, isNeeded = false, known = [], note } = field;
  return (
    <label class="field">
      <span>
        {label}
        {isNeeded ? <span aria-hidden="true"> *</span> : null}
      </span>
      <Control field={field} text={text} isWrong={problem !== undefined} onText={onText} />
      {kind === 'choice' || known.length === 0 ? null : (
        <datalist id={`known-${name}`}>
          {known.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
      {problem === undefined ? null : <span class="problem">{problem}</span>}
      {note === undefined ? null : <span class="faint">{note}</span>}
    </label>
  );
}

interface ControlProps {
  readonly field: FieldDefinition;
  readonly text: string;
  readonly isWrong: boolean;
  onText(text: string): void;
}

function Control({
  field: { name, kind, isNeeded = false, known = [], placeholder },
  text,
  isWrong,
  onText,
}: ControlProps): JSX.Element {
  if (kind === 'choice')
    return (
      <select value={text} aria-invalid={isWrong} onChange={({ currentTarget: { value } }) => onText(value)}>
        {isNeeded && text !== '' ? null : <option value="">{placeholder ?? ''}</option>}
        {known.map((one) => (
          <option key={one} value={one}>
            {one}
          </option>
        ))}
      </select>
    );
  if (kind === 'json' || kind === 'lines')
    return (
      <textarea
        required={isNeeded}
        rows={5}
        spellcheck={false}
        aria-invalid={isWrong}
        placeholder={placeholder}
        value={text}
        onInput={({ currentTarget: { value } }) => onText(value)}
      />
    );
  return (
    <input
      type={kind === 'time' ? 'datetime-local' : 'text'}
      step={kind === 'time' ? 1 : undefined}
      inputMode={kind === 'number' ? 'decimal' : 'text'}
      required={isNeeded}
      maxLength={kind === 'number' ? 40 : 4_096}
      list={`known-${name}`}
      autocomplete="off"
      spellcheck={false}
      aria-invalid={isWrong}
      placeholder={placeholder}
      value={text}
      onInput={({ currentTarget: { value } }) => onText(value)}
    />
  );
}

/**
 * Returns the values of the fields that are not empty.
 *
 * @throws SyntaxError when a text is not JSON, or no number
 */
export function valuesOf(fields: readonly FieldDefinition[], texts: Texts): Record<string, unknown> {
  const given = fields.filter(({ name }) => (texts[name] ?? '') !== '');
  return Object.fromEntries(given.map((field) => [field.name, valueOf(field, texts[field.name] ?? '')]));
}

function valueOf({ kind, label, known }: FieldDefinition, text: string): unknown {
  if (kind === 'json') return json(text, label);
  if (kind === 'duration') return /^\d+$/.test(text) ? Number(text) : text;
  if (kind === 'time') return new Date(text).toISOString();
  if (kind === 'lines') return text.match(/\S+/g) ?? [];
  if (kind === 'choice' && known?.join() === 'true,false') return text === 'true';
  if (kind !== 'number') return text;
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) throw new SyntaxError(`${label} is not a number`);
  return value;
}

/** @throws SyntaxError when the text is not JSON */
export function json(text: string, label: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new SyntaxError(`${label} is not JSON: ${(error as Error).message}`);
  }
}

/**
 * Returns the tags of a text such as `team:billing, region:eu`.
 *
 * @throws SyntaxError when a part has no colon
 */
export function tagsOf(text: string): Record<string, string> {
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
