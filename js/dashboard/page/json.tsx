// Indented JSON with colours and parts that can be folded. Other text is shown as it is.

import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';

/** Lines up to which parts can be folded and are coloured, so that a very long value is shown at once. */
const RICH_MAX = 3_000;

/** Longest line that is coloured, in characters. */
const COLOURED_MAX = 10_000;

/** Matches the parts of a line of JSON: a key or a text, a number, or a word. */
const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|-?\b\d[\d.eE+-]*\b|\b(?:true|false|null|undefined)\b/g;

/** Splits a text into lines. */
export function linesOf(text: string): string[] {
  return text.split('\n');
}

interface JsonProps {
  readonly lines: readonly string[];
  readonly isWhole: boolean;
}

export function Json({ lines, isWhole }: JsonProps): JSX.Element {
  const [folded, setFolded] = useState<ReadonlySet<number>>(new Set());
  const ends = useMemo(() => (lines.length > RICH_MAX ? new Map<number, number>() : endsOf(lines)), [lines]);
  if (lines.length > RICH_MAX) return <>{lines.join('\n')}</>;
  const shown: JSX.Element[] = [];
  for (let at = 0; at < lines.length; at += 1) {
    const end = ends.get(at);
    const isFolded = end !== undefined && folded.has(at);
    shown.push(
      <Line
        key={at}
        text={lines[at] ?? ''}
        isLast={at === lines.length - 1 && isWhole}
        fold={
          end === undefined
            ? undefined
            : {
                isFolded,
                rest: ` … ${end - at - 1} lines … ${(lines[end] ?? '').trim()}`,
                toggle: () => setFolded(toggled(folded, at)),
              }
        }
      />,
    );
    if (isFolded) at = end;
  }
  return <>{shown}</>;
}

function toggled(set: ReadonlySet<number>, one: number): Set<number> {
  const next = new Set(set);
  if (!next.delete(one)) next.add(one);
  return next;
}

/** Returns the line of the closing bracket, by the line of the opening one. The first line is not folded. */
function endsOf(lines: readonly string[]): Map<number, number> {
  const ends = new Map<number, number>();
  const open: { at: number; indent: number }[] = [];
  for (const [at, line] of lines.entries()) {
    const indent = line.length - line.trimStart().length;
    const last = open.at(-1);
    if (last !== undefined && last.indent === indent && /^[\]}]/.test(line.trimStart())) {
      open.pop();
      if (at - last.at > 1 && last.at > 0) ends.set(last.at, at);
    }
    if (/[[{]$/.test(line)) open.push({ at, indent });
  }
  return ends;
}

interface LineProps {
  readonly text: string;
  readonly isLast: boolean;
  readonly fold: { readonly isFolded: boolean; readonly rest: string; toggle(): void } | undefined;
}

function Line({ text, isLast, fold }: LineProps): JSX.Element {
  return (
    <>
      {coloured(text)}
      {fold === undefined ? null : (
        <button
          type="button"
          class="fold"
          aria-expanded={!fold.isFolded}
          aria-label={`Part ${text.trim()}`}
          onClick={fold.toggle}
        >
          {fold.isFolded ? '▸' : '▾'}
        </button>
      )}
      {fold?.isFolded ? <span class="faint">{fold.rest}</span> : null}
      {isLast ? '' : '\n'}
    </>
  );
}

function coloured(text: string): (JSX.Element | string)[] | string {
  if (text.length > COLOURED_MAX) return text;
  const parts: (JSX.Element | string)[] = [];
  let from = 0;
  for (const match of text.matchAll(TOKEN)) {
    const [all, quoted, colon] = match;
    if (match.index > from) parts.push(text.slice(from, match.index));
    const kind = quoted === undefined ? 'number' : colon === undefined ? 'text' : 'key';
    parts.push(
      <span key={match.index} class={`json-${kind}`}>
        {quoted ?? all}
      </span>,
    );
    if (colon !== undefined) parts.push(colon);
    from = match.index + all.length;
  }
  parts.push(text.slice(from));
  return parts;
}
