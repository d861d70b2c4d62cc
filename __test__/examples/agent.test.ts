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

/** The custom status of the agent. */
interface Shown {
  answered: number;
  memory: { id: string }[];
}

const agent = () => new Example('agent', '--folder', folder);

it('answers questions, and keeps the conversation over a kill', async () => {
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

it('answers each of many questions once and in order, over kills and several executions', async () => {
  const first = agent().type('how many films were made in 1949?');
  await first.printed(/in 1949\?/);
  await first.kill();

  await using provider = await SqliteProvider.open(join(folder, 'agent.db'));
  const client = new Client(provider);
  const years = Array.from({ length: 50 }, (_, i) => `${1950 + i}`);
  for (const year of years)
    await client.enqueueEvent('agent', 'questions', { id: year, text: `how many films were made in ${year}?` });
  const second = agent();
  await second.printed(/in 1964\?/);
  await second.kill();

  const third = agent();
  let status = await client.getStatus<never, Shown>('agent');
  while (status?.customStatus?.answered !== 51) {
    await client.waitForStatusChange('agent', status?.customStatusVersion ?? 0);
    status = await client.getStatus<never, Shown>('agent');
  }
  expect(await third.hangUp().ended()).toBe('0');
  expect(status).toMatchObject({ status: 'Running', executionId: 3 });
  expect(status.customStatus.memory.map(({ id }) => id)).toEqual(years.slice(-20));
});
