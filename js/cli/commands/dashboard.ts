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
    .command('dashboard', 'serve the dashboard until the process is stopped')
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--port <number>', 'port to listen on; 0 for any free port', wholeNumber(0), PORT)
    .addOption(
      new Option('--token <token>', 'token that a browser must present (default: a random token)').env(
        'PERDURE_DASHBOARD_TOKEN',
      ),
    )
    .option('--no-token', 'allow access without a token, from this machine and through proxies on it')
    .option('--read-only', 'disable all actions')
    .option(
      '--allow-host <name>',
      'host name under which other machines reach this server; may be repeated',
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
        terminal.note(`${readOnly === true ? 'actions are disabled; ' : ''}stop the dashboard with Ctrl-C`);
        await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
        await served.close();
      }),
    );
}
