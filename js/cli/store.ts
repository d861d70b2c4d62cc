// The store of a command: opens it and closes it again.

import { Client } from '../client/client.ts';
import { PostgresProvider } from '../store/postgres-provider.ts';
import { Provider, SqliteProvider } from '../store/providers.ts';
import type { AsyncCodec } from '../values/async-codec.ts';
import type { Codec } from '../values/stored-text.ts';
import { STORED_FORMS } from '../values/value-types.ts';
import { usageError } from './exit.ts';
import { exportsOfModule } from './modules.ts';

/** Options that select the store. */
export interface StoreOptions {
  /** Path of a SQLite file, or URL of a Postgres server. */
  readonly db?: string;
  /** Schema on a Postgres server. */
  readonly schema?: string;
  /** Module with the codec of the store. */
  readonly codec?: string;
}

/** Connections of a pool. A command sends one request after the other. */
const POOL_SIZE = 2;

/**
 * Opens the store. Only `migrate` creates a store or changes its tables. For any other command a mistyped path creates
 * no file, and workers of an older release keep their tables.
 */
export async function openStore({ db, schema, codec: module }: StoreOptions, migrate: boolean): Promise<Provider> {
  if (db === undefined || db === '')
    throw usageError(
      'no store is selected: pass --db, or set PERDURE_DB, to the path of a SQLite file or a postgres:// URL',
    );
  const codec = module === undefined ? {} : { codec: await codecOf(module) };
  if (/^postgres(ql)?:\/\//i.test(db)) {
    return PostgresProvider.connect(db, {
      migrate,
      poolSize: POOL_SIZE,
      ...(schema === undefined ? {} : { schema }),
      ...codec,
    });
  }
  // The text is not shown, because any URL may hold a password.
  if (/^[a-z][a-z+.-]*:\/\//i.test(db) || (/^postgres/i.test(db) && db.includes('@'))) {
    throw usageError('--db takes the path of a SQLite file, or a URL that begins with postgres:// or postgresql://');
  }
  if (schema !== undefined) throw usageError('--schema applies to Postgres only: a SQLite file has no schemas');
  return SqliteProvider.open(db, { migrate, ...codec });
}

/** Runs `work` with the client of a store, and closes the store afterwards. */
export async function withStore<T>(
  options: StoreOptions,
  work: (client: Client, provider: Provider) => Promise<T>,
  migrate = false,
): Promise<T> {
  const provider = await openStore(options, migrate);
  // The classes of the values are those of the user's program.
  Provider.portOf(provider, 'perdure').texts.withTypes(STORED_FORMS);
  try {
    return await work(new Client(provider), provider);
  } finally {
    await provider.close();
  }
}

async function codecOf(path: string): Promise<Codec | AsyncCodec> {
  const { codec, default: whole } = (await exportsOfModule(path)) as {
    codec?: Codec | AsyncCodec;
    default?: Codec | AsyncCodec;
  };
  const found = codec ?? whole;
  if (typeof found?.encode === 'function' && typeof found.decode === 'function') return found;
  throw usageError(`${path} exports no codec: export an object with encode and decode as 'codec' or as the default`);
}
