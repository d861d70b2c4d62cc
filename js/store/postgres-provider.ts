// The store on a Postgres server.

import { connectPostgres, type NativePostgresOptions } from '../binding/store.ts';
import { ProviderError } from '../errors/errors.ts';
import { bool, checkOptions, func, nested, type OptionTable, oneOf, text, whole } from '../util/options.ts';
import { isList } from '../util/show.ts';
import { PROVIDER_OPTIONS, Provider, type ProviderOptions, StorePort, textsOf } from './providers.ts';

/** Options of {@link PostgresProvider.connect}. */
export interface PostgresOptions extends ProviderOptions {
  /** Schema of the tables, 1 to 63 bytes. It is created if it does not exist. Default: `'perdure'`. */
  schema?: string;
  /**
   * `false`: a missing schema is not created, and a schema of an older Perdure is refused with a `SchemaVersionError`
   * instead of being migrated. For tools that look at a store which others run. Default: `true`.
   */
  migrate?: boolean;
  /** The most connections at once, besides the one that listens: 1 to 1 000. Default: 10. */
  poolSize?: number;
  /**
   * Listens for changes by other processes (LISTEN and NOTIFY, on a separate connection), so that results, messages and
   * cancellations cross processes in milliseconds. `false`: the store is polled once a second instead. Default: `true`,
   * and `false` behind a pooler in transaction mode, of which few (PgDog) pass notifications on.
   */
  notify?: boolean;
  /**
   * The pooler between this process and the server. `'transaction'`: a pooler that gives a server's connection to each
   * transaction (PgBouncer, Supavisor, PgDog), so that no state may stay on a connection between two transactions.
   * `'none'`: the server itself, or a pooler in session mode. Default: as the URL says (`pgbouncer=true`), else
   * detected at connect with a second connection; a busy pooler can escape that detection.
   */
  pooler?: 'none' | 'transaction';
  /**
   * Prepares statements, once for each connection. Default: `true`; behind a pooler in transaction mode, only if the
   * pooler is seen to keep track of them (PgBouncer from 1.21 on with `max_prepared_statements`).
   */
  prepare?: boolean;
  /**
   * TLS. `true`: the server must show a certificate for its host that is signed by one of `ca`, by default one that
   * Node trusts. `false`: no TLS. Left out: as the URL's `sslmode` says, `prefer` by default. If the server is on
   * another machine and the connection is not encrypted, Node warns once with the code `PERDURE_NO_TLS`.
   */
  tls?: boolean | PostgresTlsOptions;
  /**
   * Returns the password, instead of the URL's, for each new connection: for example a cloud token that is valid for
   * some minutes. It has 10 s. While it fails, no connection is made, which is a `ProviderError` that is `retryable`.
   * It is called in the thread that has connected.
   */
  password?: () => Promise<string>;
}

/** TLS settings, named as those of `node:tls`. */
export interface PostgresTlsOptions {
  /** Trusted certificates, PEM. Default: those that Node trusts. */
  ca?: string | readonly string[];
  /**
   * Certificate revocation lists, PEM: one from each issuer of a certificate in the chain, else the chain is refused.
   * Default: revocation is not checked.
   */
  crl?: string | readonly string[];
  /** Certificate chain of this client, PEM. */
  cert?: string;
  /** Private key of that certificate, PEM. */
  key?: string;
  /** `false`: any certificate is accepted; the connection is still encrypted. Default: `true`. */
  rejectUnauthorized?: boolean;
}

const POOL_SIZE_MAX = 1_000;

const OPTIONS = {
  ...PROVIDER_OPTIONS,
  schema: checkSchema,
  migrate: bool,
  poolSize: whole(1, POOL_SIZE_MAX),
  notify: bool,
  pooler: oneOf('none', 'transaction'),
  prepare: bool,
  tls: checkTls,
  password: func,
} satisfies OptionTable;

const TLS_OPTIONS = {
  ca: checkCertificates,
  crl: checkCertificates,
  cert: text,
  key: text,
  rejectUnauthorized: bool,
} satisfies OptionTable;

/**
 * A store on a Postgres server (14 or newer), which any number of processes on any number of machines may use at once.
 *
 * @example
 * ```ts
 * await using provider = await PostgresProvider.connect('postgres://app:secret@db.internal/shop?sslmode=verify-full');
 * ```
 */
export class PostgresProvider extends Provider {
  private constructor(port: StorePort) {
    super(port);
  }

  /**
   * Connects to a store. Its schema and tables are created, or migrated to this version, under a lock.
   *
   * @param url - as libpq takes it: `postgres://user:password@host:port/database?sslmode=verify-full&sslrootcert=/path`
   *   `require_auth=scram-sha-256` refuses, before the password is sent, a server that asks for the password itself or
   *   for none. A user or password that holds more than letters and digits goes through `encodeURIComponent`. An error
   *   comes within 5 s, unless `connect_timeout` (for each host, in seconds) gives it longer
   * @throws ProviderError when the server cannot be reached (`retryable`); when it refuses the user or the schema; when
   *   it asks for an authentication method that `require_auth` does not allow; or when the schema does not exist and
   *   must not be created. The error shows no password
   * @throws SchemaVersionError when a newer Perdure made the tables, or an older one and `migrate` is `false`; nothing
   *   is touched then
   * @throws TypeError when an argument is wrong
   */
  static async connect(url: string, options?: PostgresOptions): Promise<PostgresProvider> {
    if (typeof url !== 'string' || url.length === 0)
      throw new TypeError('PostgresProvider.connect: the URL must be a string that is not empty');
    checkUrl(url);
    const {
      schema = 'perdure',
      migrate = true,
      poolSize = 10,
      notify = null,
      pooler = null,
      prepare = null,
      tls,
      password,
      ...values
    } = checkOptions(options, OPTIONS, 'PostgresProvider.connect') ?? {};
    const settings: NativePostgresOptions = {
      schema,
      migrate,
      poolSize,
      notify,
      pooler,
      prepare,
      ...tlsSettings(url, tls),
    };
    const texts = textsOf(values);
    const store = await connectPostgres(
      url,
      settings,
      texts.bridge,
      password && (async () => checkPassword(await password())),
    );
    const warning = store.warning();
    if (warning !== null) process.emitWarning(warning, { code: 'PERDURE_NO_TLS' });
    return new PostgresProvider(new StorePort(store, texts, { kind: 'postgres', schema }));
  }
}

/** Refuses the URLs that are most often passed in error. No part is shown, because it may hold a password. */
function checkUrl(url: string): void {
  if (!/^postgres(ql)?:\/\//.test(url)) {
    throw refused("its URL does not begin with 'postgres://'. For an SQLite file use SqliteProvider.open(path)");
  }
  const [, name] = /[?&](schema|search_path)=/.exec(url) ?? [];
  if (name === undefined) return;
  throw refused(
    `its URL has the parameter '${name}', which Postgres does not know. Leave it out, and pass the schema as an ` +
      "option: PostgresProvider.connect(url, { schema: 'app' }), or --schema of the command line",
  );
}

function refused(why: string): ProviderError {
  return new ProviderError(`The Postgres store cannot be opened: ${why}`, { retryable: false });
}

function checkPassword(given: unknown): string {
  // The value is not shown: it may hold the password itself.
  if (typeof given !== 'string') throw new TypeError('it did not resolve to a string');
  return given;
}

function tlsSettings(
  url: string,
  wanted: boolean | PostgresTlsOptions | undefined,
): Pick<NativePostgresOptions, 'tls' | 'defaultRoots'> {
  if (wanted === undefined)
    return { tls: null, defaultRoots: /[?&]sslmode=verify/.test(url) ? believedByNode() : null };
  if (wanted === false)
    return { tls: { mode: 'disable', roots: null, crls: null, cert: null, key: null }, defaultRoots: null };
  const { ca, crl, cert = null, key = null, rejectUnauthorized = true } = wanted === true ? {} : wanted;
  if (!rejectUnauthorized) return { tls: { mode: 'require', roots: null, crls: null, cert, key }, defaultRoots: null };
  const roots = ca === undefined ? believedByNode() : [ca].flat().join('\n');
  return {
    tls: { mode: 'verify-full', roots, crls: crl === undefined ? null : [crl].flat().join('\n'), cert, key },
    defaultRoots: null,
  };
}

/** Returns Node's trusted certificates, with those of `NODE_EXTRA_CA_CERTS` if Node lists them (from 22.15 on). */
function believedByNode(): string {
  // Not an import: most programs never get here, and `node:tls` takes as long to load as all of Perdure.
  const tls = process.getBuiltinModule('node:tls');
  const ask = (tls as { getCACertificates?: (type: 'default') => string[] }).getCACertificates;
  return (ask?.('default') ?? tls.rootCertificates).join('\n');
}

function checkSchema(value: unknown, path: string): void {
  text(value, path);
  const bytes = Buffer.byteLength(value as string);
  if (bytes < 1 || bytes > 63) throw new TypeError(`${path} must have 1 to 63 bytes, got ${bytes}`);
  if ((value as string).includes('\0')) throw new TypeError(`${path} must not contain NUL`);
  if ((value as string).startsWith('pg_'))
    throw new TypeError(`${path} must not begin with 'pg_', which Postgres reserves`);
}

function checkTls(value: unknown, path: string): void {
  if (typeof value === 'boolean') return;
  nested(TLS_OPTIONS)(value, path);
  const { cert, key } = value as PostgresTlsOptions;
  if ((cert === undefined) !== (key === undefined)) throw new TypeError(`${path}: cert and key must be given together`);
}

function checkCertificates(value: unknown, path: string): void {
  if (isList(value)) value.forEach((one, n) => text(one, `${path}[${n}]`));
  else text(value, path);
}
