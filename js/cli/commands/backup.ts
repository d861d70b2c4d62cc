// `perdure backup`

import type { Cli } from '../cli.ts';
import { usageError } from '../exit.ts';
import { bytesText, printable } from '../text.ts';

interface Flags {
  readonly force?: true;
}

export function backup(cli: Cli): void {
  cli
    .command('backup', 'copy a SQLite store to another file, while workers run')
    .argument('<file>', 'path of the copy')
    .option('-f, --force', 'replace an existing file')
    .action(
      cli.action(async ({ terminal, flags }, path: string, { force }: Flags) => {
        const [{ openStore }, { SqliteProvider }] = await Promise.all([
          import('../store.ts'),
          import('../../store/providers.ts'),
        ]);
        const provider = await openStore(flags, false);
        try {
          if (!(provider instanceof SqliteProvider))
            throw usageError('backup copies SQLite stores only: for a Postgres server use pg_dump or a base backup');
          const { bytes } = await provider.backup(path, { replace: force === true });
          if (terminal.isJson) terminal.data({ path, bytes });
          else terminal.line(`${printable(path)} has ${bytesText(bytes)}`);
        } finally {
          await provider.close();
        }
      }),
    );
}
