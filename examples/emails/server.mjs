// A server that takes e-mails by SMTP on a free port of this machine, and writes down what it receives.

import { appendFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { SMTPServer } from 'smtp-server';

/** Starts the server. Each e-mail becomes a line of JSON in the file, before it is acknowledged. */
export async function receiveMails(path) {
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    async onData(stream, session, callback) {
      try {
        const message = await text(stream);
        const id = /^Message-ID: <([^@>]*)/im.exec(message)?.[1];
        const { mailFrom, rcptTo } = session.envelope;
        const line = { id, from: mailFrom.address, to: rcptTo.map(({ address }) => address), at: Date.now() };
        await appendFile(path, `${JSON.stringify(line)}\n`);
        callback();
      } catch (error) {
        callback(error);
      }
    },
  });
  await new Promise((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve));
  const { port } = server.server.address();
  const close = () => new Promise((resolve) => server.close(resolve));
  return { address: `smtp://127.0.0.1:${port}`, close };
}
