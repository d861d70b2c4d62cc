// TLS to a Postgres server whose certificate was signed by an authority of this test's own, and may have been revoked
// since.

import { chownSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PostgresProvider } from 'perdure';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { Authority } from '../../support/certificates.ts';
import { Cluster, noCluster, user } from '../../support/cluster.ts';
import { temporaryFolder } from '../../support/providers.ts';

const PASSWORD = 'c4naryS3cret';

describe.skipIf(noCluster !== undefined)(`TLS${noCluster === undefined ? '' : ` (skipped: ${noCluster})`}`, () => {
  const authority = new Authority('an authority');
  const stranger = new Authority('another authority');
  const server = authority.issue('127.0.0.1');
  const other = authority.issue('127.0.0.1');
  const folder = temporaryFolder();
  const lists = {
    'holds nothing': authority.revoked(),
    'holds another certificate': authority.revoked(other),
    'holds the certificate': authority.revoked(other, server),
    'is somebody else’s': stranger.revoked(server),
  };
  let cluster: Cluster;

  const file = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text, { mode: 0o600 });
    if (user?.uid !== undefined && user.gid !== undefined) chownSync(path, user.uid, user.gid);
    return path;
  };

  beforeAll(async () => {
    const settings = {
      ssl: 'on',
      ssl_cert_file: file('server.crt', server.cert),
      ssl_key_file: file('server.key', server.key),
    };
    cluster = await Cluster.create(settings, folder);
    await cluster.ask(`CREATE ROLE app LOGIN PASSWORD '${PASSWORD}'; CREATE SCHEMA shop AUTHORIZATION app`);
    await cluster.ask(`CREATE ROLE plain LOGIN PASSWORD '${PASSWORD}' IN ROLE app`);
    await cluster.admit('hostssl all plain all password');
    await cluster.admit('hostssl all app all scram-sha-256');
    await cluster.admit('hostnossl all app,plain all reject');
  });
  afterAll(() => cluster?.remove());

  const urlOf = (parameters: Record<string, string>, role = 'app') =>
    `postgres://${role}:${PASSWORD}@127.0.0.1:${cluster.port}/postgres?${new URLSearchParams(parameters)}`;
  const connect = async (url: string, tls?: PostgresTls): Promise<void> => {
    const store = await PostgresProvider.connect(url, { schema: 'shop', poolSize: 1, ...(tls && { tls }) });
    await store.close();
  };
  type PostgresTls = NonNullable<Parameters<typeof PostgresProvider.connect>[1]>['tls'];

  /** Ways to name a revocation list: in the URL, with each mode that reads it, and in code. */
  const ways: Record<string, (list: string | undefined) => Promise<void>> = {
    ...Object.fromEntries(
      ['verify-full', 'verify-ca', 'require'].map((sslmode) => [
        `sslmode=${sslmode} with sslcrl`,
        (list: string | undefined) =>
          connect(
            urlOf({
              sslmode,
              sslrootcert: file('root.crt', authority.cert),
              ...(list !== undefined && { sslcrl: file('revoked.crl', list) }),
            }),
          ),
      ]),
    ),
    'tls.crl': (list) => connect(urlOf({}), { ca: authority.cert, ...(list !== undefined && { crl: list }) }),
    'tls.crl of several authorities': (list) =>
      connect(urlOf({}), {
        ca: [stranger.cert, authority.cert],
        ...(list !== undefined && { crl: [stranger.revoked(), list] }),
      }),
  };

  describe.each(Object.keys(ways))('%s', (name) => {
    const way = (list?: string) => ways[name]?.(list) ?? Promise.reject(new Error(name));

    it.each(['holds nothing', 'holds another certificate'] as const)('connects when the list %s', async (list) => {
      await way(lists[list]);
    });

    it('connects without a list', async () => {
      await way();
    });

    it('refuses a certificate that the list holds', async () => {
      const error = await rejection(way(lists['holds the certificate']));
      expect(error).toMatchObject({
        name: 'ProviderError',
        retryable: false,
        message: expect.stringMatching(/cannot be opened: .*certificate.*revoked/i),
      });
    });

    it('refuses a certificate whose authority has given no list', async () => {
      const error = await rejection(way(lists['is somebody else’s']));
      expect(error).toMatchObject({
        name: 'ProviderError',
        retryable: false,
        message: expect.stringMatching(/cannot be opened: .*certificate.*UnknownRevocationStatus.*`sslcrl`/),
      });
    });
  });

  it.each(['sslmode=verify-full with sslcrl', 'tls.crl'])('refuses a list that is none: %s', async (name) => {
    const [first = '', ...rest] = lists['holds nothing'].split('\n');
    const damaged = [first, 'AAAA', ...rest].join('\n');
    for (const list of ['', 'no PEM', authority.cert, damaged]) {
      const error = await rejection(ways[name]?.(list) ?? Promise.reject(new Error(name)));
      expect(error).toMatchObject({
        name: 'ProviderError',
        retryable: false,
        message: expect.stringContaining('TLS settings cannot be used'),
      });
    }
  });

  it('refuses a certificate of another authority or host', async () => {
    const unknown = await rejection(
      connect(urlOf({ sslmode: 'verify-ca', sslrootcert: file('stranger.crt', stranger.cert) })),
    );
    expect(unknown).toMatchObject({ retryable: false, message: expect.stringContaining('certificate') });
    const elsewhere = urlOf({ sslmode: 'verify-full', sslrootcert: file('root.crt', authority.cert) }).replace(
      '@127.0.0.1:',
      '@localhost:',
    );
    const misnamed = await rejection(connect(elsewhere));
    expect(misnamed).toMatchObject({ retryable: false, message: expect.stringContaining('localhost') });
    // The host name is not checked.
    await connect(elsewhere.replace('verify-full', 'verify-ca'));
  });

  it('compares the certificate with the address where the URL has no name', async () => {
    const unnamed = (query: Record<string, string>) => {
      const place = { hostaddr: '127.0.0.1', port: String(cluster.port), user: 'app', password: PASSWORD };
      return `postgres:///postgres?${new URLSearchParams({ ...place, ...query })}`;
    };
    await connect(unnamed({}));
    await connect(unnamed({ sslmode: 'verify-full', sslrootcert: file('root.crt', authority.cert) }));
  });

  it.each(['prefer', 'require', 'verify-full'])(
    'holds require_auth against the answers of an encrypted server, with sslmode=%s',
    async (sslmode) => {
      const parameters = {
        sslmode,
        ...(sslmode === 'verify-full' && { sslrootcert: file('root.crt', authority.cert) }),
      };
      await connect(urlOf({ ...parameters, require_auth: 'scram-sha-256' }));
      // The exchange is still bound to the certificate.
      await connect(urlOf({ ...parameters, require_auth: 'scram-sha-256', channel_binding: 'require' }));
      await connect(urlOf({ ...parameters, require_auth: 'password' }, 'plain'));
      const error = await rejection(connect(urlOf({ ...parameters, require_auth: 'scram-sha-256' }, 'plain')));
      expect(error).toMatchObject({ retryable: false, message: expect.stringContaining('the password in plain text') });
    },
  );
});
