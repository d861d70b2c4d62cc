// A value: text, of which the beginning is there and the rest is fetched when somebody asks for it.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { Shown } from '../answers.ts';
import { get, type Refused } from './api.ts';

interface ValueProps {
  readonly label: string;
  readonly shown: Shown;
  /** Where all of it is: the path below `api/v1/`. */
  readonly whole?: string;
}

export function Value({ label, shown, whole }: ValueProps): JSX.Element {
  const [all, setAll] = useState<Shown>();
  const [error, setError] = useState<Refused>();
  const [isLoading, setLoading] = useState(false);
  const load = (): void => {
    setLoading(true);
    setError(undefined);
    get<Shown>(whole ?? '')
      .then(setAll, setError)
      .finally(() => setLoading(false));
  };
  const { text, isWhole } = all ?? shown;
  return (
    <div class="value">
      {/* Long ones scroll, which a keyboard must be able to do. */}
      <pre tabIndex={0} role="group" aria-label={label}>
        {text}
        {isWhole ? '' : '…'}
      </pre>
      <p class="tools">
        {!isWhole && whole !== undefined && all === undefined ? (
          <button type="button" onClick={load} disabled={isLoading}>
            {isLoading ? 'Loading…' : 'Show whole'}
          </button>
        ) : null}
        {!isWhole && all !== undefined ? 'This is longer than a page can show.' : null}
        {error === undefined ? null : (
          <span role="alert" class="problem">
            {error.message}
          </span>
        )}
      </p>
      <Copy text={text} />
    </div>
  );
}

function Copy({ text }: { text: string }): JSX.Element | null {
  const [isDone, setDone] = useState(false);
  // There is none where the page came neither over TLS nor from this machine.
  if (navigator.clipboard === undefined) return null;
  const copy = (): void => void navigator.clipboard.writeText(text).then(() => setDone(true));
  return (
    <button type="button" class="quiet copy" onClick={copy}>
      {isDone ? 'Copied' : 'Copy'}
    </button>
  );
}
