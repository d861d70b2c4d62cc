// A value in a panel: JSON whose parts can be folded, an error with its stack and causes, or plain text. The beginning
// of a long value is shown, and the rest on request.

import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import type { ErrorText, ValueText } from '../answers.ts';
import { get, type RequestError } from './api.ts';
import { count } from './format.ts';
import { Json, linesOf } from './json.tsx';

/** Most characters of a value that are fetched without a request of the user. */
const EAGER_MAX = 20_000;

/** Lines of a value that are shown at first. */
const LINES_SHOWN = 14;

/** Lines up to which a value is shown without a button for the rest. */
const LINES_MAX = 20;

interface ValueProps {
  readonly label: string;
  /** Heading of the panel. */
  readonly title?: string;
  readonly shown: ValueText;
  /** Path of the whole value, below `api/v1/`. */
  readonly whole?: string;
  /** True if `shown` is a short preview, of which more is fetched at once. */
  readonly isEager?: boolean;
}

export function Value({ label, title, shown, whole, isEager = false }: ValueProps): JSX.Element {
  const { value, error, isLoading, load } = useWhole(shown, whole, isEager);
  return (
    <div class="value">
      {title === undefined ? null : <h3>{title}</h3>}
      {value.errors === undefined ? (
        <Text key={value.text.length} label={label} value={value} />
      ) : (
        <Errors label={label} errors={value.errors} />
      )}
      <p class="tools">
        {!value.isWhole && load !== undefined ? (
          <button type="button" onClick={load} disabled={isLoading}>
            {isLoading ? 'Loading…' : 'Show full value'}
          </button>
        ) : null}
        {!value.isWhole && load === undefined && whole !== undefined ? 'The value is too long to show it all.' : null}
        {error === undefined ? null : (
          <span role="alert" class="problem">
            {error.message}
          </span>
        )}
      </p>
      <Copy text={value.text} />
    </div>
  );
}

interface WholeValue {
  readonly value: ValueText;
  readonly error: RequestError | undefined;
  readonly isLoading: boolean;
  /** Fetches the whole value. Absent when that was done, and when there is no path. */
  readonly load: (() => void) | undefined;
}

function useWhole(shown: ValueText, whole: string | undefined, isEager: boolean): WholeValue {
  const [all, setAll] = useState<ValueText>();
  const [error, setError] = useState<RequestError>();
  const [isLoading, setLoading] = useState(false);
  const [isAsked, setAsked] = useState(false);
  const fetchFrom = (path: string, signal?: AbortSignal): void => {
    setLoading(true);
    setError(undefined);
    get<ValueText>(path, signal)
      .then(setAll, (error: RequestError) => signal?.aborted || setError(error))
      .finally(() => setLoading(false));
  };
  // A preview of an error has no parts yet, even where its text is whole.
  const needsMore = isEager && whole !== undefined && (!shown.isWhole || shown.text.includes('\n'));
  useEffect(() => {
    if (!needsMore) return undefined;
    const asking = new AbortController();
    fetchFrom(`${whole}&most=${EAGER_MAX}`, asking.signal);
    return () => asking.abort();
  }, [needsMore, whole]);
  const load = (): void => {
    setAsked(true);
    fetchFrom(whole ?? '');
  };
  return {
    value: all ?? shown,
    error,
    isLoading,
    load: whole === undefined || (isAsked && all !== undefined && !isLoading) ? undefined : load,
  };
}

/** A text of which the first lines are shown, until the user asks for the others. */
function Text({ label, value: { text, isWhole } }: { label: string; value: ValueText }): JSX.Element {
  const lines = linesOf(text);
  const [isUnfolded, setUnfolded] = useState(false);
  const isLong = lines.length > LINES_MAX;
  return (
    <>
      {/* A long value scrolls, and the focus makes that possible by keyboard. */}
      <pre tabIndex={0} role="group" aria-label={label} class={isUnfolded ? 'tall' : ''}>
        <Json lines={isLong && !isUnfolded ? lines.slice(0, LINES_SHOWN) : lines} isWhole={isWhole} />
        {isWhole ? '' : '…'}
      </pre>
      {isLong ? (
        <button type="button" class="quiet" aria-expanded={isUnfolded} onClick={() => setUnfolded(!isUnfolded)}>
          {isUnfolded ? 'Show fewer lines' : `Show all ${count(lines.length)} lines`}
        </button>
      ) : null}
    </>
  );
}

function Errors({ label, errors }: { label: string; errors: readonly ErrorText[] }): JSX.Element {
  return (
    <div class="errors" role="group" aria-label={label}>
      {errors.map(({ name, message, stack, fields }, i) => (
        <section key={i} aria-label={i === 0 ? 'Error' : `Cause ${i}`}>
          {i === 0 ? null : <h4>Caused by</h4>}
          <p class="message">
            {name === '' ? null : <b>{`${name}: `}</b>}
            {message}
          </p>
          {fields === undefined ? null : <pre>{fields}</pre>}
          {stack === undefined ? null : (
            <details>
              <summary>Stack</summary>
              <pre>{stack}</pre>
            </details>
          )}
        </section>
      ))}
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
