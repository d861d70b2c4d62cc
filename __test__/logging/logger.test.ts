// Entries of the log: the text of an id or a message neither starts another entry nor controls a terminal.

import { TestRuntime } from 'perdure/testing';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { type LogStyle, loggerOf, styleOf } from '../../js/logging/logger.ts';

/** Returns a logger and the entries that it has written. */
function writing(style: LogStyle) {
  const entries: string[] = [];
  return { entries, logger: loggerOf((entry) => void entries.push(entry), style) };
}

afterEach(() => {
  vi.restoreAllMocks();
});

describe('on a terminal', () => {
  it.each([
    ['a line break', "'a\n12:00:00.000 ERROR forged'", "'a\n    12:00:00.000 ERROR forged'"],
    ['a carriage return', "'a\r2026'", "'a\\r2026'"],
    ['an escape sequence', "'\u001b[2Ja\u009b'", "'\\u001b[2Ja\\u009b'"],
    ['a change of direction', "'\u202ea'", "'\\u202ea'"],
    ['a line separator', "'a\u2028b'", "'a\\u2028b'"],
  ])('%s in a message is no line of its own', (_, message, expected) => {
    const { entries, logger } = writing('plain');
    logger.warn({ id: message }, message);
    const escape = (c: string): string => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`;
    const id = JSON.stringify(message).replace(/[\u007f-\uffff]/g, escape);
    expect(entries).toHaveLength(1);
    expect(entries[0]).toMatch(/^\d{2}:\d{2}:\d{2}\.\d{3} WARN {2}/);
    expect(entries[0]?.slice(19)).toBe(`${expected}\n    {"id":${id}}`);
  });

  it('an error is shown by the first lines of its stack', () => {
    const { entries, logger } = writing('plain');
    const error = new RangeError('no');
    const frames = ['a', 'b', 'c', 'd', 'e'].map((name) => `    at ${name} (file:///${name}.ts:1:1)`);
    error.stack = ['RangeError: no', '    at node (node:internal:1:1)', ...frames].join('\n');
    logger.error({ id: 'order-1', error }, 'failed: RangeError: no');
    expect(entries[0]?.slice(13)).toBe(
      ['ERROR failed: RangeError: no', '    {"id":"order-1"}', ...frames.slice(0, 4)].join('\n'),
    );
  });

  it('a level has a color where there are colors', () => {
    const { entries, logger } = writing('colors');
    logger.warn({}, 'look');
    expect(entries[0]).toMatch(/^\u001b\[2m[\d:.]+\u001b\[0m \u001b\[33mWARN \u001b\[0m look$/);
    expect(styleOf({ isTTY: true, hasColors: () => true })).toBe('colors');
    expect(styleOf({ isTTY: true, hasColors: () => false })).toBe('plain');
  });
});

describe('elsewhere', () => {
  it('an entry is a line of JSON', () => {
    expect(styleOf({})).toBe('json');
    const { entries, logger } = writing('json');
    logger.info({ id: 'a', name: 'mine', count: 3n }, 'two\nlines \u202e');
    expect(entries[0]).not.toMatch(/[\n\u202e]/);
    expect(JSON.parse(entries[0] ?? '')).toEqual({
      time: expect.stringMatching(/^\d{4}-\d{2}-\d{2}T[\d:.]+Z$/),
      level: 'info',
      name: 'perdure',
      message: 'two\nlines \u202e',
      id: 'a',
      'fields.name': 'mine',
      count: '3',
    });
    logger.debug({}, 'plain');
    expect(JSON.parse(entries[1] ?? '')).toMatchObject({ level: 'debug', message: 'plain' });
  });

  it('an id cannot forge a line of a runtime', async () => {
    const written = vi.spyOn(console, 'error').mockReturnValue();
    await using test = await TestRuntime.create({ logLevel: 'warn' });
    const id = 'order-1\n{"level":"error","name":"perdure"}\u001b[2J';
    test.registerOrchestration('traces', function* (ctx) {
      ctx.traceWarn(`of ${ctx.instanceId}`);
    });
    await test.client.startOrchestration(id, 'traces');
    await test.client.waitForOrchestration(id);
    const lines = written.mock.calls.map(([line]) => String(line));
    expect(lines).toHaveLength(1);
    expect(lines[0]).not.toMatch(/[\n\u001b]/);
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ level: 'warn', message: `of ${id}`, instanceId: id });
  });
});
