import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Client, SqliteProvider } from 'perdure';
import { afterEach, beforeEach, expect, it } from 'vitest';

import { Example } from '../support/example.ts';
import { temporaryFolder } from '../support/providers.ts';

let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
});
afterEach(() => rmSync(folder, { recursive: true }));

const agent = () => new Example('agent', '--folder', folder);

it('answers what it was asked, and remembers over a kill what was talked about', async () => {
  const first = agent().type('what is the best film by Steven Spielberg?');
  await first.printed(/Schindler's List \(1993\), rated 8\.9/);
  expect(await first.kill()).toBe('SIGKILL');

  const second = agent().type('and between 1970 and 1980?', 'who are you?').hangUp();
  expect(await second.ended()).toBe('0');
  expect(second.output).toBe(
    '> and between 1970 and 1980?\nJaws (1975), rated 8.3\n' +
      '> who are you?\nI know about films: ask for a director, a genre or a year.\n',
  );
});

it('answers each of many questions once and in order, over a kill and several executions', async () => {
  const years = Array.from({ length: 50 }, (_, i) => 1950 + i);
  const killed = agent().type(...years.map((year) => `how many films were made in ${year}?`));
  await killed.printed(/in 1964\?/);
  await killed.kill();
  const last = agent();
  await last.printed(/in 1999\?\n\d+ films/);
  expect(await last.hangUp().ended()).toBe('0');

  const answered = [...last.output.matchAll(/in (\d+)\?$/gm)].map(([, year]) => Number(year));
  expect(answered).toEqual(years.slice(-answered.length));
  await using provider = await SqliteProvider.open(join(folder, 'agent.db'));
  expect(await new Client(provider).getStatus('agent')).toMatchObject({ status: 'Running', executionId: 3, customStatus: { answered: 50 } });
});
