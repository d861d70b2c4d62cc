// Connection URLs that are wrong, odd or right, against a server that asks for passwords. Each gives a store, or a
// typed error within five seconds that shows no password.

import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { inspect } from 'node:util';
import { PerdureError, PostgresProvider, ProviderError } from 'perdure';
import { Client as PgClient } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { Cluster, noCluster } from '../../support/cluster.ts';
import '../../support/leaks.ts';
import { CANARY, ODD, type Outcome, type Place, urls } from '../../support/urls.ts';

/** The time within which an error comes, as promised to users. */
const WITHIN_MS = 5_000;

/** As many as Node opens at once. An attempt that waits for a thread has not begun. */
const AT_ONCE = 4;

const PASSWORDS = [CANARY, ODD, encodeURIComponent(ODD)];

/** Creates roles and databases. From then on no client connects without a password. */
const SETUP = [
  `CREATE ROLE app LOGIN PASSWORD '${CANARY}'`,
  `CREATE ROLE "a@b/c" LOGIN PASSWORD '${CANARY}' IN ROLE app`,
  `CREATE ROLE odd LOGIN PASSWORD '${ODD}' IN ROLE app`,
  `CREATE ROLE nologin NOLOGIN PASSWORD '${CANARY}'`,
  `CREATE ROLE expired LOGIN PASSWORD '${CANARY}' VALID UNTIL '2001-01-01'`,
  `CREATE ROLE powerless LOGIN PASSWORD '${CANARY}'`,
  `CREATE ROLE crowd LOGIN PASSWORD '${CANARY}' CONNECTION LIMIT 0`,
  'CREATE DATABASE shop OWNER app',
  'CREATE DATABASE closed OWNER app ALLOW_CONNECTIONS false',
];

async function query(url: string, ...statements: string[]): Promise<Record<string, string>[]> {
  const client = new PgClient({ connectionString: url });
  await client.connect();
  let rows: Record<string, string>[] = [];
  for (const sql of statements) rows = (await client.query<Record<string, string>>(sql)).rows;
  await client.end();
  return rows;
}

function listen(onSocket: (socket: Socket) => void): Promise<Server> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    onSocket(socket);
  });
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)));
}

/** The default port of Postgres. */
const DEFAULT_PORT = 5_432;

const answers = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    socket.on('error', () => resolve(false));
    socket.on('connect', () => {
      socket.destroy();
      resolve(true);
    });
  });

const portOf = (server: Server): number => (server.address() as AddressInfo).port;

describe.skipIf(noCluster !== undefined)(
  `connection URLs${noCluster === undefined ? '' : ` (skipped: ${noCluster})`}`,
  () => {
    let cluster: Cluster;
    let place: Place;
    const others: Server[] = [];

    beforeAll(async () => {
      cluster = await Cluster.create({ unix_socket_directories: '.' });
      await query(cluster.url, ...SETUP);
      const [{ data_directory: folder = '' } = {}] = await query(cluster.url, 'SHOW data_directory');
      const hba = `${folder}/pg_hba.conf`;
      // The rights on the schema are granted once, so that each URL that opens finds the schema.
      await query(cluster.url.replace(/postgres$/, 'shop'), 'CREATE SCHEMA perdure AUTHORIZATION app');
      await query(
        cluster.url,
        `COPY (VALUES ('local all all scram-sha-256'), ('host all all 127.0.0.1/32 scram-sha-256')) TO '${hba}'`,
        'SELECT pg_reload_conf()',
      );
      const mute = await listen(() => {});
      const foreign = await listen((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'.repeat(100)));
      const closing = await listen((socket) => socket.destroy());
      const gone = await listen(() => {});
      others.push(mute, foreign, closing);
      const dead = portOf(gone);
      await new Promise((resolve) => gone.close(resolve));
      const { hostname: host, port } = new URL(cluster.url);
      place = {
        host,
        port: Number(port),
        socket: process.platform === 'win32' ? undefined : folder,
        mute: portOf(mute),
        foreign: portOf(foreign),
        closing: portOf(closing),
        dead,
        hasDefault: await answers(DEFAULT_PORT),
      };
    });

    afterAll(async () => {
      for (const server of others) server.close();
      await cluster?.remove();
    });

    /** Returns the fault in the outcome of a URL, or `undefined` if there is none. */
    async function problem(url: string, expected: Outcome): Promise<string | undefined> {
      const begun = performance.now();
      let outcome: Outcome = 'opens';
      let shown = '';
      try {
        const provider = await PostgresProvider.connect(url, { poolSize: 2 });
        await provider.close();
      } catch (error) {
        shown = `${inspect(error, { depth: 5, showHidden: true })} ${String(error)} ${JSON.stringify(error)}`;
        if (!(error instanceof PerdureError)) return `it failed with ${shown}`;
        outcome = error instanceof ProviderError && error.retryable ? 'away' : 'refused';
      }
      const took = performance.now() - begun;
      if (took > WITHIN_MS) return `it took ${Math.round(took)} ms`;
      if (PASSWORDS.some((password) => shown.includes(password)))
        return `it shows the password: ${shown.slice(0, 1_000)}`;
      if (/panicked|unwrap|napi/i.test(shown)) return `it failed with ${shown.slice(0, 1_000)}`;
      if (shown.length > 10_000) return `its error is ${shown.length} characters long`;
      return outcome === expected ? undefined : `it ${outcome}: ${shown.slice(0, 500)}`;
    }

    it('lead to a store, or to an error in time that shows no password', async () => {
      const table = urls(place);
      expect(table.length).toBeGreaterThan(100);
      expect(new Set(table.map(([url]) => url)).size).toBe(table.length);
      const left = [...table];
      const problems: string[] = [];
      const work = async (): Promise<void> => {
        for (let next = left.shift(); next !== undefined; next = left.shift()) {
          const [url, expected] = next;
          const found = await problem(url, expected);
          if (found !== undefined) problems.push(`${JSON.stringify(url.slice(0, 120))} ${expected}, but ${found}`);
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, work));
      expect(problems).toEqual([]);
    });
  },
);
