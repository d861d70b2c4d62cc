// `perdure dashboard`

import { once } from 'node:events';

import { Option } from 'commander';

import { wholeNumber } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import { withoutUndefined } from '../filter.ts';

interface Flags {
  readonly host: string;
  readonly port: number;
  readonly token?: string | false;
  readonly readOnly?: true;
  readonly allowHost?: string[];
}

/** Default port. */
const PORT = 4_700;

export function dashboard(cli: Cli): void {
  cli
    .command('dashboard', 'serve a page that shows what is in the store, until it is told to end')
    .option('--host <address>', 'listen here', '127.0.0.1')
    .option('--port <number>', 'and at this port; 0 for any that is free', wholeNumber(0), PORT)
    .addOption(
      new Option('--token <token>', 'what whoever wants to see it must show; made if there is none').env(
        'PERDURE_DASHBOARD_TOKEN',
      ),
    )
    .option('--no-token', 'show it to this machine without one, and to whatever a proxy on it lets through')
    .option('--read-only', 'show, and change nothing')
    .option(
      '--allow-host <name>',
      'a name of this machine that browsers elsewhere use; again for another',
      (name: string, before: string[] = []) => [...before, name],
    )
    .action(
      cli.storeAction(async ({ client, terminal }, { host, port, token, readOnly, allowHost: allowedHosts }: Flags) => {
        const { serveDashboard } = await import('../../dashboard/server.ts');
        const served = await serveDashboard(client, {
          host,
          port,
          ...withoutUndefined({ token, readOnly, allowedHosts }),
        });
        if (terminal.isJson) terminal.data({ url: served.url, readOnly: readOnly === true });
        else terminal.line(served.url);
        terminal.note(`${readOnly === true ? 'it changes nothing; ' : ''}end it with Ctrl-C`);
        await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
        await served.close();
      }),
    );
}
