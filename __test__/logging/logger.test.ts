// Lines of the log: the text of an id or a message neither starts another line nor controls a terminal.

import { TestRuntime } from 'perdure/testing';
import { afterEach, expect, it, vi } from 'vitest';
import { consoleLogger } from '../../js/logging/logger.ts';

const written = (): string[] => vi.mocked(console.error).mock.calls.map(([line]) => String(line));

afterEach(() => {
  vi.restoreAllMocks();
});

it.each([
  [
    'a line break',
    "'a\n2026-01-01T00:00:00.000Z ERROR perdure: forged'",
    "'a\n    2026-01-01T00:00:00.000Z ERROR perdure: forged'",
  ],
  ['a carriage return', "'a\r2026'", "'a\\r2026'"],
  ['an escape sequence', "'\u001b[2Ja\u009b'", "'\\u001b[2Ja\\u009b'"],
  ['a change of direction', "'\u202ea'", "'\\u202ea'"],
  ['a line separator', "'a\u2028b'", "'a\\u2028b'"],
])('%s in a message is no line of its own', (_, message, expected) => {
  vi.spyOn(console, 'error').mockReturnValue();
  consoleLogger.warn({ id: message }, message);
  expect(written()).toHaveLength(1);
  const [line = ''] = written();
  const escape = (c: string): string => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`;
  const id = JSON.stringify(message).replace(/[\u007f-\uffff]/g, escape);
  expect(line.slice(line.indexOf('perdure: ') + 9)).toBe(`${expected} {"id":${id}}`);
});

it('an id cannot forge a line of a runtime', async () => {
  vi.spyOn(console, 'error').mockReturnValue();
  await using test = await TestRuntime.create({ logLevel: 'warn' });
  const id = 'order-1\n2026-01-01T00:00:00.000Z ERROR perdure: forged\u001b[2J';
  test.registerOrchestration('traces', function* (ctx) {
    ctx.traceWarn(`of ${ctx.instanceId}`);
  });
  await test.client.startOrchestration(id, 'traces');
  await test.client.waitForOrchestration(id);
  expect(written()).toHaveLength(1);
  for (const line of written().join('\n').split('\n'))
    expect(line).toMatch(/^(?:\d{4}-\S+ WARN {2}perdure: of order-1$| {4}\S)/);
  expect(written().join('')).not.toContain('\u001b');
});
