import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Client, SqliteProvider } from 'perdure';
import { afterAll, expect, it } from 'vitest';

import { Example, readLedger } from '../support/example.ts';
import { temporaryFolder } from '../support/providers.ts';

const folder = temporaryFolder();
const polled = { count: 0, status: 200 };
const server = createServer((_, response) => {
  polled.count += 1;
  response.writeHead(polled.status).end();
  server.emit('polled');
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true });
});

it('records each outage once, over a kill and several executions', async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const monitor = () => new Example('monitor', url, '--every', '5ms', '--folder', folder);

  const first = monitor();
  await first.printed(/is up/);
  polled.status = 503;
  await first.printed(/is down \(status 503\)/);
  expect(await first.kill()).toBe('SIGKILL');

  polled.status = 200;
  const second = monitor();
  await second.printed(/is up/);
  while (polled.count < 250) await once(server, 'polled');
  expect(await second.interrupt()).toBe('0');

  const entries = readLedger(folder, 'outages.jsonl');
  expect(entries.map(({ state }) => state)).toEqual(['up', 'down', 'up']);
  await using provider = await SqliteProvider.open(join(folder, 'monitor.db'));
  const status = await new Client(provider).getStatus(url);
  expect(status).toMatchObject({ status: 'Running', customStatus: { state: 'up', failures: 0 } });
  expect(status?.executionId).toBeGreaterThan(2);
});

it('wants an address', async () => {
  const wrong = new Example('monitor', 'nonsense', '--folder', folder);
  expect(await wrong.ended()).toBe('2');
  expect(wrong.errors).toMatch(/^Usage: /);
});
