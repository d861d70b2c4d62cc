// `perdure dashboard`

import { once } from 'node:events';

import { Option } from 'commander';

import { wholeNumber } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import { usageError } from '../exit.ts';
import { withoutUndefined } from '../filter.ts';

interface Flags {
  readonly host: string;
  readonly port: number;
  readonly token?: string | false;
  readonly readOnly?: true;
  readonly allowHost?: string[];
  readonly module?: string[];
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
    .option('-m, --module <path...>', 'modules that export entities, whose handlers and reads the pages then name')
    .action(
      cli.storeAction(async ({ client, terminal }, flags: Flags) => {
        const { host, port, token, readOnly, allowHost: allowedHosts, module: modules } = flags;
        const entities = modules === undefined ? undefined : await entitiesIn(modules);
        const { serveDashboard } = await import('../../dashboard/server.ts');
        const served = await serveDashboard(client, {
          host,
          port,
          ...withoutUndefined({ token, readOnly, allowedHosts, entities }),
        });
        if (terminal.isJson) terminal.data({ url: served.url, readOnly: readOnly === true });
        else terminal.line(served.url);
        terminal.note(`${readOnly === true ? 'actions are disabled; ' : ''}stop the dashboard with Ctrl-C`);
        await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
        await served.close();
      }),
    );
}

async function entitiesIn(modules: readonly string[]) {
  const { entitiesOf } = await import('../modules.ts');
  const entities = await entitiesOf(modules);
  if (entities.length === 0) throw usageError('the modules export no entity: export what defineEntity returned');
  return entities;
}
