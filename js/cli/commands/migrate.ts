// `perdure migrate`

import { ProviderError, SchemaVersionError } from '../../errors/errors.ts';
import type { Cli, GlobalFlags } from '../cli.ts';
import { EXIT, Exit } from '../exit.ts';
import { printable } from '../text.ts';

interface Flags {
  readonly check?: true;
}

export function migrate(cli: Cli): void {
  cli
    .command(
      'migrate',
      'create the store, or migrate its tables to this version (a runtime does this when it opens the store)',
    )
    .option('--check', 'change nothing: fail if there is something to migrate')
    .action(
      cli.action(async ({ terminal, flags }, { check }: Flags) => {
        const { withStore } = await import('../store.ts');
        const from = await versionOf(flags, check === true);
        const { location, schemaVersion } = await withStore(flags, (client) => client.describeStore(), check !== true);
        if (terminal.isJson) terminal.data({ location, schemaVersion, from });
        else if (from === schemaVersion)
          terminal.line(`${printable(location)} is up to date: schema version ${schemaVersion}`);
        else {
          const change = from === null ? 'created with schema version' : `migrated from schema version ${from} to`;
          terminal.line(`${printable(location)} was ${change} ${schemaVersion}`);
        }
      }),
    );
}

/**
 * Returns the version that the tables have now; `null` when there is no store yet, or the version cannot be read. The
 * next opening reports that error.
 */
async function versionOf(flags: GlobalFlags, mustBeNewest: boolean): Promise<number | null> {
  const { withStore } = await import('../store.ts');
  try {
    return await withStore(flags, async (client) => (await client.describeStore()).schemaVersion);
  } catch (error) {
    if (error instanceof SchemaVersionError && error.found < error.supported && mustBeNewest)
      throw new Exit(EXIT.unwell, error.message);
    if (error instanceof SchemaVersionError) return error.found;
    if (error instanceof ProviderError && !mustBeNewest) return null;
    throw error;
  }
}
