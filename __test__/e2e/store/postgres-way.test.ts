// Connections to a Postgres server: passwords that change, and data that crosses a network unencrypted.

import { networkInterfaces } from 'node:os';
import { Client, PostgresProvider } from 'perdure';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

import { rejection } from '../../support/async.ts';
import { Cluster, noCluster } from '../../support/cluster.ts';

/** An address of this machine under which other machines reach it. */
const outside = Object.values(networkInterfaces())
  .flatMap((all) => all ?? [])
  .find(({ family, internal }) => family === 'IPv4' && !internal)?.address;

describe.skipIf(noCluster !== undefined)(
  `on a server of its own${noCluster === undefined ? '' : ` (${noCluster})`}`,
  () => {
    let cluster: Cluster;
    beforeAll(async () => {
      cluster = await Cluster.create({ listen_addresses: '*' });
      await cluster.ask("CREATE ROLE app LOGIN PASSWORD 'first'");
      await cluster.ask('CREATE SCHEMA shop AUTHORIZATION app');
      await cluster.admit('host all app all scram-sha-256');
      await cluster.admit('host all postgres all trust');
    });
    afterAll(() => cluster.remove());

    const urlOf = (host: string, user: string) => `postgres://${user}@${host}:${cluster.port}/postgres`;

    it('asks for a password per connection, and continues when it changes', async () => {
      let token = 'first';
      const password = vi.fn(async () => token);
      await using provider = await PostgresProvider.connect(urlOf('127.0.0.1', 'app'), { schema: 'shop', password });
      const client = new Client(provider);
      await client.startOrchestration('before', 'nobody registers this');
      const asked = password.mock.calls.length;
      expect(asked).toBeGreaterThan(1);

      await cluster.ask("ALTER ROLE app PASSWORD 'second'");
      token = 'second';
      await cluster.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'");
      await client.startOrchestration('after', 'nobody registers this');
      expect(password.mock.calls.length).toBeGreaterThan(asked);
    });

    it('writes nothing while the server says that transactions are to read only', async () => {
      await using provider = await PostgresProvider.connect(cluster.url, { schema: 'shop3' });
      const client = new Client(provider);
      await client.startOrchestration('held', 'nobody registers this');
      await cluster.set('default_transaction_read_only', 'on');
      const error = await rejection(client.terminateInstance('held'));
      expect(error).toMatchObject({ retryable: true, message: expect.stringContaining('read-only') });
      expect(await client.getStatus('held')).toMatchObject({ status: 'Pending' });
      await cluster.set('default_transaction_read_only', 'off');
      await client.terminateInstance('held');
    });

    it.each([
      ['throws', () => Promise.reject(new Error('the token service is away')), /password.*the token service is away/],
      [
        'gives no string',
        async () => ({ secret: 'canary' }) as unknown as string,
        /password.*did not resolve to a string/,
      ],
    ])('tells of a function that %s, and that it may pass', async (_, password, message) => {
      const error = await rejection(PostgresProvider.connect(urlOf('127.0.0.1', 'app'), { schema: 'shop', password }));
      expect(error).toMatchObject({ name: 'ProviderError', retryable: true, message: expect.stringMatching(message) });
      expect(error.message).not.toContain('canary');
    });

    it.skipIf(outside === undefined)('warns when another machine is reached without encryption', async () => {
      const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
      try {
        await (await PostgresProvider.connect(urlOf('127.0.0.1', 'postgres'), { schema: 'shop2' })).close();
        expect(warned).not.toHaveBeenCalled();
        await (await PostgresProvider.connect(urlOf(outside ?? '', 'postgres'), { schema: 'shop2' })).close();
        expect(warned.mock.calls).toEqual([[expect.stringContaining('not encrypted'), { code: 'PERDURE_NO_TLS' }]]);
      } finally {
        warned.mockRestore();
      }
    });
  },
);
