// Sends e-mails: at most so many at once, and so many in a second for each customer, however many processes send.
//
//   node examples/emails/main.mjs [--smtp smtps://user:password@host] [--mails 300] [--at-once 10] [--a-second 20]
//     [--store postgres://…] [--schema perdure_emails] [--folder .perdure/emails]
//
// Without --smtp, the program sends to a server of its own, which writes what it receives into <folder>/received.jsonl.
// Run it several times at once, with a Postgres store: the limits hold over all processes. Kill it in the middle and
// start it again: e-mails that were sent are not sent again.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { createTransport } from 'nodemailer';
import { Client, defineActivity, defineOrchestration, PostgresProvider, Runtime, SqliteProvider } from 'perdure';
import { receiveMails } from './server.mjs';

const { values: options } = parseArgs({
  options: {
    smtp: { type: 'string' },
    mails: { type: 'string', default: '300' },
    'at-once': { type: 'string', default: '10' },
    'a-second': { type: 'string', default: '20' },
    store: { type: 'string' },
    schema: { type: 'string', default: 'perdure_emails' },
    folder: { type: 'string', default: '.perdure/emails' },
  },
});
mkdirSync(options.folder, { recursive: true });
const server = options.smtp ? undefined : await receiveMails(join(options.folder, 'received.jsonl'));
const transport = createTransport(options.smtp ?? server.address, { pool: true });

// A process that dies after the server took the e-mail, and before that is stored, sends it again. The receiver knows
// it by its message id, which is the same each time.
const send = defineActivity(
  'send',
  async (ctx, { from, to, subject, text }) => {
    const messageId = `<${ctx.idempotencyKey}@perdure.example>`;
    await transport.sendMail({ from, to, subject, text, messageId });
  },
  { timeout: '1m', retry: { maxAttempts: 10, initialInterval: '2s' } },
);

const email = defineOrchestration('email', function* (ctx, mail) {
  yield* ctx.call(send, mail);
});

const provider = options.store
  ? await PostgresProvider.connect(options.store, { schema: options.schema })
  : await SqliteProvider.open(join(options.folder, 'emails.db'));
const runtime = new Runtime(provider);
runtime.register(send, email);
const perKey = { rate: { limit: Number(options['a-second']), per: '1s' } };
await runtime.start({ queues: { emails: { concurrency: Number(options['at-once']), perKey, fairness: 'key' } } });

// One customer has most of the e-mails. Those of the others do not wait for them.
const client = new Client(provider);
const mails = Array.from({ length: Number(options.mails) }, (_, n) => {
  const customer = n % 3 > 0 ? 'large' : `customer-${n % 10}`;
  const [from, to] = [`${customer}@shop.example`, `reader-${n}@mail.example`];
  const input = { from, to, subject: `Letter ${n}`, text: `Hello, reader ${n}!` };
  const priority = n % 50 === 0 ? 1 : 0; // such as a password that was forgotten
  return { definition: email, input, id: `mail-${n}`, onConflict: 'return', queue: 'emails', key: customer, priority };
});
await client.startMany(mails);

for (;;) {
  const { waiting, running } = await client.queues.get('emails');
  if (waiting + running === 0) break;
  console.log(`${mails.length - waiting - running} sent, ${running} are being sent, ${waiting} wait`);
  await delay(500);
}
const failed = [];
for await (const { id, error } of client.listInstances({ name: 'email', status: 'Failed' }))
  failed.push(`${id}: ${error?.message}`);
console.log(`${mails.length - failed.length} e-mails were sent, ${failed.length} failed`);
for (const line of failed) console.log(line);

await runtime.shutdown();
await provider.close();
transport.close();
await server?.close();
