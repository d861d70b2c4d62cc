// `require_auth` against a server that asks each role for another method, with a proxy that records the connection. A
// refused connection has sent no password, and nothing derived from one.

import { Client, PostgresProvider } from 'perdure';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import { rejection } from '../../support/async.ts';
import { Cluster, noCluster } from '../../support/cluster.ts';
import { temporaryFolder } from '../../support/providers.ts';
import { Proxy } from '../../support/proxy.ts';

const PASSWORD = 'c4naryS3cret';

/** Roles, the line of `pg_hba.conf` of each, and the method that a refusal names. */
const METHODS = {
  none: { role: 'trusted', line: 'trust', asks: 'no authentication' },
  password: { role: 'plain', line: 'password', asks: 'the password in plain text' },
  md5: { role: 'hashed', line: 'md5', asks: 'an MD5 hash of the password' },
  'scram-sha-256': { role: 'proven', line: 'scram-sha-256', asks: 'SCRAM-SHA-256' },
} as const;

type Method = keyof typeof METHODS;

/** Values, and the methods that each of them allows. */
const RULES: readonly (readonly [value: string, allowed: readonly Method[]])[] = [
  ['', ['none', 'password', 'md5', 'scram-sha-256']],
  ['none', ['none']],
  ['password', ['password']],
  ['md5', ['md5']],
  ['scram-sha-256', ['scram-sha-256']],
  ['md5,scram-sha-256', ['md5', 'scram-sha-256']],
  ['none,gss,scram-sha-256', ['none', 'scram-sha-256']],
  ['!password', ['none', 'md5', 'scram-sha-256']],
  ['!none', ['password', 'md5', 'scram-sha-256']],
  ['!none,!password,!md5', ['scram-sha-256']],
];

describe.skipIf(noCluster !== undefined)(
  `require_auth${noCluster === undefined ? '' : ` (skipped: ${noCluster})`}`,
  () => {
    let cluster: Cluster;
    let proxy: Proxy;
    let through: string;
    const folder = temporaryFolder();

    beforeAll(async () => {
      cluster = await Cluster.create({ unix_socket_directories: folder }, folder);
      for (const [method, { role, line }] of Object.entries(METHODS)) {
        await cluster.ask(
          `SET password_encryption = '${method === 'md5' ? 'md5' : 'scram-sha-256'}';
           CREATE ROLE ${role} LOGIN PASSWORD '${PASSWORD}';
           CREATE SCHEMA ${role} AUTHORIZATION ${role}`,
        );
        await cluster.admit(`host all ${role} all ${line}`);
        await cluster.admit(`local all ${role} ${line}`);
      }
    });
    afterAll(() => cluster?.remove());

    // One proxy for each test: data that a store has begun to send before it is closed may arrive later.
    beforeEach(async () => {
      ({ proxy, url: through } = await Proxy.to(cluster.url));
    });
    afterEach(() => proxy.close());

    const options = (method: Method) =>
      ({ schema: METHODS[method].role, poolSize: 1, pooler: 'none', notify: false }) as const;
    const urlOf = (method: Method, value: string, query: Record<string, string> = {}): string => {
      const url = new URL(through);
      url.username = METHODS[method].role;
      url.password = PASSWORD;
      for (const [name, text] of Object.entries({ require_auth: value, ...query })) url.searchParams.set(name, text);
      return url.href;
    };

    const cases = RULES.flatMap(([value, allowed]) =>
      (Object.keys(METHODS) as Method[]).map((method) => [value, method, allowed.includes(method)] as const),
    );

    it.each(cases)('%j, and the server asks for %s: %s', async (value, method, isAllowed) => {
      const recorded = proxy.record();
      if (isAllowed) {
        await (await PostgresProvider.connect(urlOf(method, value), options(method))).close();
        // The recording shows a password that is sent.
        expect(recorded().some((sent) => sent.includes(PASSWORD))).toBe(method === 'password');
        return;
      }
      const error = await rejection(PostgresProvider.connect(urlOf(method, value), options(method)));
      expect(error).toMatchObject({ name: 'ProviderError', retryable: false });
      expect(error.message).toContain(
        `cannot be opened: the server asks for ${METHODS[method].asks}, but require_auth allows only `,
      );
      expect(error.message).not.toContain(PASSWORD);
      const all = recorded();
      expect(all.length).toBeGreaterThan(0);
      // The connection sent the startup message, which begins with its length and contains the role, and nothing else.
      for (const sent of all) {
        expect(sent).toHaveLength(sent.readUInt32BE(0));
        expect(sent.toString('latin1')).toContain(METHODS[method].role);
      }
    });

    it.each(['prefer', 'allow', 'disable'])('holds where the server has no TLS, with sslmode=%s', async (sslmode) => {
      await (
        await PostgresProvider.connect(urlOf('scram-sha-256', 'scram-sha-256', { sslmode }), options('scram-sha-256'))
      ).close();
      const recorded = proxy.record();
      const error = await rejection(
        PostgresProvider.connect(urlOf('password', 'scram-sha-256', { sslmode }), options('password')),
      );
      expect(error).toMatchObject({ retryable: false, message: expect.stringContaining('the password in plain text') });
      const all = recorded();
      expect(all.length).toBeGreaterThan(0);
      expect(all.some((sent) => sent.includes(PASSWORD))).toBe(false);
    });

    it('says that the server has no TLS where it is required, too', async () => {
      const error = await rejection(
        PostgresProvider.connect(
          urlOf('scram-sha-256', 'scram-sha-256', { sslmode: 'require' }),
          options('scram-sha-256'),
        ),
      );
      expect(error).toMatchObject({
        retryable: false,
        message: expect.stringContaining('server does not support TLS'),
      });
    });

    it.skipIf(process.platform === 'win32')('holds over a Unix socket', async () => {
      const place = `${encodeURIComponent(folder)}:${cluster.port}`;
      const urlOf = (method: Method, query = '') =>
        `postgres://${METHODS[method].role}:${PASSWORD}@${place}/postgres?require_auth=scram-sha-256${query}`;
      const store = await PostgresProvider.connect(
        urlOf('scram-sha-256', '&target_session_attrs=read-write'),
        options('scram-sha-256'),
      );
      await new Client(store).startOrchestration('over a socket', 'nobody registers this');
      await store.close();
      for (const method of ['none', 'password', 'md5'] as const) {
        const error = await rejection(PostgresProvider.connect(urlOf(method), options(method)));
        expect(error).toMatchObject({
          retryable: false,
          message: expect.stringContaining(`the server asks for ${METHODS[method].asks}`),
        });
      }
      const reading = await rejection(
        PostgresProvider.connect(urlOf('scram-sha-256', '&target_session_attrs=read-only'), options('scram-sha-256')),
      );
      expect(reading).toMatchObject({ retryable: true, message: expect.stringContaining('not read only') });
    });

    it('holds where the URL has an address and no name', async () => {
      const urlOf = (method: Method) =>
        `postgres:///postgres?hostaddr=127.0.0.1&port=${cluster.port}&user=${METHODS[method].role}` +
        `&password=${PASSWORD}&require_auth=scram-sha-256`;
      await (await PostgresProvider.connect(urlOf('scram-sha-256'), options('scram-sha-256'))).close();
      const error = await rejection(PostgresProvider.connect(urlOf('md5'), options('md5')));
      expect(error).toMatchObject({ retryable: false, message: expect.stringContaining('MD5') });
    });

    it('applies to later connections of an open store, which continues when the server complies', async () => {
      await using store = await PostgresProvider.connect(
        urlOf('scram-sha-256', 'scram-sha-256'),
        options('scram-sha-256'),
      );
      const client = new Client(store);
      await client.startOrchestration('before', 'nobody registers this');
      const recorded = proxy.record();
      await cluster.admit('host all proven all password');
      await cluster.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'proven'");
      // A connection that the server is about to end can still be used. The error is then about that connection.
      await vi.waitFor(
        async () => {
          const error = await rejection(client.getStatus('before'));
          expect(error.retryable).toBe(true);
          expect(error.message).toContain('require_auth');
        },
        { timeout: 20_000 },
      );
      expect(recorded().some((sent) => sent.includes(PASSWORD))).toBe(false);
      await cluster.admit('host all proven all scram-sha-256');
      await expect.poll(() => client.getStatus('before').catch(() => undefined)).toMatchObject({ status: 'Pending' });
    });

    it.each(['scram', 'md5,', 'md5,!password', 'md5,md5', 'gss', PASSWORD])(
      'refuses the value %j, without a word to the server',
      async (value) => {
        const recorded = proxy.record();
        const error = await rejection(
          PostgresProvider.connect(urlOf('scram-sha-256', value), options('scram-sha-256')),
        );
        expect(error).toMatchObject({
          name: 'ProviderError',
          retryable: false,
          message: expect.stringMatching(/^The Postgres store cannot be opened: require_auth /),
        });
        expect(error.message).not.toContain(PASSWORD);
        expect(error.message).not.toContain('127.0.0.1');
        expect(recorded()).toEqual([]);
      },
    );
  },
);
