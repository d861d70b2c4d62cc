import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { Client as PgClient } from 'pg';
import { afterEach, beforeEach, expect, it } from 'vitest';

import { Example, readLedger } from '../support/example.ts';
import { POSTGRES_URL, temporaryFolder } from '../support/providers.ts';

let folder: string;
let schema: string;
beforeEach(() => {
  folder = temporaryFolder();
  schema = `perdure test ${randomUUID()}`;
});
afterEach(async () => {
  rmSync(folder, { recursive: true });
  const server = new PgClient({ connectionString: POSTGRES_URL });
  await server.connect();
  await server.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
  await server.end();
});

const ON = { sqlite: () => [], postgres: () => ['--store', POSTGRES_URL, '--schema', schema] };

it.each(['sqlite', 'postgres'] as const)(
  'sends each e-mail once at a limited rate, over a kill, on %s',
  async (kind) => {
    const args = ['--folder', folder, '--mails', '120', '--a-second', '25', '--at-once', '5', ...ON[kind]()];
    const killed = new Example('emails/main', ...args);
    await killed.printed(/^([2-9]\d|\d{3}) sent/m);
    expect(await killed.kill()).toBe('SIGKILL');
    const last = new Example('emails/main', ...args);
    expect(await last.ended(), last.errors).toBe('0');
    expect(last.output).toMatch(/^120 e-mails were sent, 0 failed$/m);

    const received = readLedger(folder, 'received.jsonl');
    expect(new Set(received.map(({ to }) => to[0])).size).toBe(120);
    // An e-mail that was under way at the kill may come twice, with the same message id.
    expect(new Set(received.map(({ id }) => id)).size).toBe(120);
    expect(received.length).toBeLessThanOrEqual(120 + 5);
    const large = received.filter(({ from }) => from === 'large@shop.example');
    const most = Math.max(...large.map(({ at }) => large.filter((mail) => mail.at >= at && mail.at < at + 800).length));
    expect(most).toBeLessThanOrEqual(25 + 5);
  },
);
