// The output on a terminal, and without one.

import { PassThrough } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import stringWidth from 'string-width';
import { describe, expect, it } from 'vitest';

import type { Column } from '../../js/cli/table.ts';
import { type Stream, Terminal } from '../../js/cli/terminal.ts';
import { agoText, bytesText, plainValue, spanText } from '../../js/cli/text.ts';
import { waterfall } from '../../js/cli/waterfall.ts';
import type { HistoryEventKind } from '../../js/client/history.ts';
import { Bars } from '../../js/dashboard/bars.ts';
import { durationText, exactSpanText } from '../../js/util/duration.ts';

/** Returns a terminal of some width, or none, and functions that read its output. */
function terminal({ columns, json = false }: { columns?: number; json?: boolean }): {
  on: Terminal;
  out: () => string;
  err: () => string;
} {
  const streams = [new PassThrough(), new PassThrough()].map((stream) =>
    Object.assign(stream, columns === undefined ? { isTTY: false } : { isTTY: true, columns, hasColors: () => true }),
  ) as unknown as [Stream & PassThrough, Stream & PassThrough];
  const read = (stream: PassThrough): string => (stream.read() as Buffer | null)?.toString() ?? '';
  return {
    on: new Terminal(streams[0], streams[1], false, json),
    out: () => read(streams[0]),
    err: () => read(streams[1]),
  };
}

const COLUMNS: readonly Column<string>[] = [
  { title: 'ID', text: (text) => text, mayShrink: true },
  { title: 'N', text: (text) => `${text.length}`, align: 'right' },
  { title: 'ABOUT', text: (text) => `about ${text}`, mayShrink: true },
];

describe('a table', () => {
  it.each([
    ['short', '日本語の注文', '👩‍👩‍👧‍👧 family'],
    ['x'.repeat(300), 'é'],
  ])('is no wider than the terminal: %s', (...rows) => {
    const { on, out } = terminal({ columns: 40 });
    on.table(COLUMNS, rows);
    const lines = stripVTControlCharacters(out()).trimEnd().split('\n');
    expect(lines).toHaveLength(rows.length + 1);
    for (const line of lines) expect(stringWidth(line)).toBeLessThanOrEqual(40);
    const starts = lines.map((line) => stringWidth(line.slice(0, line.search(/about|ABOUT/))));
    expect(new Set(starts).size).toBe(1);
  });

  it('shortens and colours nothing where there is no terminal', () => {
    const { on, out } = terminal({});
    on.table(COLUMNS, ['x'.repeat(300)]);
    on.line(on.style('red', 'plain'));
    expect(out()).toBe(`${'ID'.padEnd(300)}    N  ABOUT\n${'x'.repeat(300)}  300  about ${'x'.repeat(300)}\nplain\n`);
  });
});

it('a timeline fits the terminal, and shows short, open and late bars', () => {
  const bars = new Bars();
  const at = (id: number, atMs: number, kind: HistoryEventKind, more: object = {}): void =>
    bars.add({ id, atMs, kind, ...more });
  at(1, 0, 'ExecutionStarted', { name: 'order' });
  at(2, 0, 'ActivityScheduled', { name: 'charge' });
  at(3, 10, 'ActivityAttemptFailed', { ref: 2, attempt: 1, untilMs: 500 });
  at(4, 1_000, 'ActivityCompleted', { ref: 2 });
  at(5, 1_000, 'TimerCreated', { untilMs: 9_000 });
  at(6, 1_000, 'ActivityScheduled', { name: '日本語の注文'.repeat(20) });
  at(7, 1_010, 'ActivityAttemptFailed', { ref: 6, attempt: 1, untilMs: 60_000 });
  const { on } = terminal({ columns: 80 });
  const lines = waterfall(on, bars, { nowMs: 4_000 }).map((line) => stripVTControlCharacters(line));
  for (const line of lines) {
    expect(stringWidth(line)).toBeLessThanOrEqual(80);
    expect(line).toMatch(/[▏▎▍▌▋▊▉█]$/);
  }
  expect(
    lines.map((line) =>
      line
        .replace(/日.*?(?= {2})/, 'long')
        .split(/ {2,}/)
        .slice(0, 2),
    ),
  ).toEqual([
    ['* order', '4s…'],
    ['✗ charge', '10ms'],
    ['✓ charge #2', '500ms'],
    ['* timer', '3s…'],
    ['✗ long', '10ms'],
    ['* long', 'in 56s'],
  ]);
});

it('progress overwrites its line, and only on a terminal', () => {
  const some = terminal({ columns: 80 });
  some.on.progress('1 of 2');
  some.on.progress('2 of 2');
  some.on.line('done');
  expect(some.err()).toBe('\r\u001b[K1 of 2\r\u001b[K2 of 2\r\u001b[K');
  const none = terminal({});
  none.on.progress('1 of 2');
  expect(none.err()).toBe('');
});

it('JSON holds any value, in one line that steers nothing', () => {
  const { on, out } = terminal({ columns: 80, json: true });
  const circle: Record<string, unknown> = { a: 1 };
  circle.self = circle;
  const value = {
    date: new Date(0),
    wrong: new Date(Number.NaN),
    big: 10n,
    map: new Map([['k', new Set([1])]]),
    url: new URL('http://a/'),
    re: /a/g,
    bytes: new Uint8Array([1, 2]),
    nothing: undefined,
    nan: Number.NaN,
    circle,
    error: new RangeError('no', { cause: new Error('why') }),
    text: '\u001b\u009b\u202e\n',
  };
  on.data(value);
  const line = out();
  expect(line).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
  expect(line.trimEnd().split('\n')).toHaveLength(1);
  expect(JSON.parse(line)).toEqual({
    date: '1970-01-01T00:00:00.000Z',
    wrong: null,
    big: '10',
    map: [['k', [1]]],
    url: 'http://a/',
    re: '/a/g',
    bytes: [1, 2],
    nan: null,
    circle: { a: 1, self: '[circular]' },
    error: { name: 'RangeError', message: 'no', cause: { name: 'Error', message: 'why' } },
    text: value.text,
  });
  expect(plainValue([circle, circle])).toEqual([
    { a: 1, self: '[circular]' },
    { a: 1, self: '[circular]' },
  ]);
});

it('spans and sizes read well', () => {
  expect([0, 999, 1_000, 1_500, 59_999, 60_000, 3_725_000, 90_000_000, 86_400_000 * 400].map(spanText)).toEqual([
    '0ms',
    '999ms',
    '1s',
    '1.5s',
    '60s',
    '1m',
    '1h 2m',
    '1d 1h',
    '400d',
  ]);
  expect([0, 1_500, 5_400_000, 90_061_001].map(exactSpanText)).toEqual([
    '0ms',
    '1s 500ms',
    '1h 30m',
    '1d 1h 1m 1s 1ms',
  ]);
  expect([0, 1_500, 5_400_000, 86_400_000].map(durationText)).toEqual(['0ms', '1500ms', '90m', '1d']);
  expect([0, 1_023, 1_024, 1_536, 5 * 1_024 ** 3].map(bytesText)).toEqual([
    '0 B',
    '1023 B',
    '1.0 KiB',
    '1.5 KiB',
    '5.0 GiB',
  ]);
  expect([agoText(new Date(1_000), 3_000), agoText(new Date(3_000), 1_000)]).toEqual(['2s ago', 'in 2s']);
});
