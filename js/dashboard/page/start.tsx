// The start of a new instance: a form from the schema of the input, if the server knows it, and otherwise JSON.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import { act } from './api.ts';
import { Dialog } from './dialog.tsx';
import { type FieldDefinition, Fields, TAGS, type Texts, tagsOf } from './fields.tsx';
import { useCode } from './input.tsx';
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

function StartDialog({ name, onClose }: { name: string; onClose(): void }): JSX.Element {
  const [texts, setTexts] = useState<Texts>({ name });
  const code = useCode(texts, { isNewest: true });
  const submit = async (): Promise<void> => {
    const { name = '', id, tags } = texts;
    const body = {
      name,
      ...(code.version === '' ? {} : { version: code.version }),
      ...(id ? { id } : {}),
      ...(tags ? { tags: tagsOf(tags) } : {}),
      ...code.input.value(),
    };
    try {
      location.hash = linkTo('instance', { id: (await act('start', body)).id });
      onClose();
    } catch (error) {
      code.input.refused(error);
      throw error;
    }
  };
  return (
    <Dialog title="Start an instance" button="Start" onSubmit={submit} onClose={onClose}>
      <Fields fields={[...code.fields, ID]} texts={code.texts} onTexts={(next) => setTexts(code.changed(next))} />
      {code.input.element}
      <Fields fields={[TAGS]} texts={texts} onTexts={setTexts} />
    </Dialog>
  );
}
