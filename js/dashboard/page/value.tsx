// A value as text. The beginning is shown, and the rest is fetched on request.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { ValueText } from '../answers.ts';
import { get, type RequestError } from './api.ts';

interface ValueProps {
  readonly label: string;
  readonly shown: ValueText;
  /** Path of the whole value, below `api/v1/`. */
  readonly whole?: string;
}

export function Value({ label, shown, whole }: ValueProps): JSX.Element {
  const [all, setAll] = useState<ValueText>();
  const [error, setError] = useState<RequestError>();
  const [isLoading, setLoading] = useState(false);
  const load = (): void => {
    setLoading(true);
    setError(undefined);
    get<ValueText>(whole ?? '')
      .then(setAll, setError)
      .finally(() => setLoading(false));
  };
  const { text, isWhole } = all ?? shown;
  return (
    <div class="value">
      {/* A long value scrolls, and the focus makes that possible by keyboard. */}
      <pre tabIndex={0} role="group" aria-label={label}>
        {text}
        {isWhole ? '' : '…'}
      </pre>
      <p class="tools">
        {!isWhole && whole !== undefined && all === undefined ? (
          <button type="button" onClick={load} disabled={isLoading}>
            {isLoading ? 'Loading…' : 'Show full value'}
          </button>
        ) : null}
        {!isWhole && all !== undefined ? 'The value is too long to show it all.' : null}
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
  // Browsers have no clipboard for a page that came neither over TLS nor from this machine.
  if (navigator.clipboard === undefined) return null;
  const copy = (): void => void navigator.clipboard.writeText(text).then(() => setDone(true));
  return (
    <button type="button" class="quiet copy" onClick={copy}>
      {isDone ? 'Copied' : 'Copy'}
    </button>
  );
}
