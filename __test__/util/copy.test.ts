// Two copies of this package in one process: dist/, which users have, and js/.

import * as built from 'perdure';
import { dashboardHandler } from 'perdure/dashboard';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { Client, NonRetryableError, type Provider, RetryAfterError, Runtime, SqliteProvider } from '../../js/index.ts';
import { rejection } from '../support/async.ts';
import { STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';

const NOTE = new RegExp(
  [
    'two copies of perdure are loaded, ',
    /version \d+\.\d+\.\d+ in \S+[/\\]js[/\\]; here: /.source,
    /version \d+\.\d+\.\d+ in \S+[/\\]dist[/\\]\)/.source,
    'npm ls perdure',
  ].join('.*'),
);

describe('an object of another copy of the package', () => {
  let provider: Provider;
  beforeAll(async () => {
    provider = await SqliteProvider.inMemory();
  });
  afterAll(() => provider.close());

  it('is refused with the versions and folders of both', () => {
    const foreign = provider as unknown as built.Provider;
    expect(() => new built.Client(foreign)).toThrow(NOTE);
    expect(() => new built.Runtime(foreign)).toThrow(NOTE);
    expect(() => new built.Client(foreign)).toThrow(TypeError);
    const client = new Client(provider) as unknown as built.Client;
    expect(() => dashboardHandler(client)).toThrow(NOTE);
    const runtime = new Runtime(provider) as unknown as built.Runtime;
    const own = Object.create(built.Client.prototype) as built.Client;
    expect(() => dashboardHandler(own, { runtime })).toThrow(NOTE);
  });
});

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('errors of another copy keep their class and their meaning', async () => {
    let calls = 0;
    await store.start((runtime) =>
      runtime
        .registerActivity('foreign errors', () => {
          calls += 1;
          if (calls === 1) throw new RetryAfterError('1ms');
          throw new NonRetryableError('no card');
        })
        .registerOrchestration('foreign errors', function* (ctx) {
          yield* ctx.scheduleActivity('foreign errors');
        }),
    );
    const handle = store.client.handle(store.id());
    await store.client.startOrchestration(handle.id, 'foreign errors');
    const error = await rejection(handle.result({ timeout: SOON }));
    expect(error).toBeInstanceOf(built.ActivityError);
    expect(error).toMatchObject({ attempt: 2, cause: { message: 'no card', code: 'NON_RETRYABLE' } });
    expect(error.cause).toBeInstanceOf(built.NonRetryableError);
  });
});
