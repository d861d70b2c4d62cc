// Spans of requests in a transaction of the user's.

import { Client, InstanceExistsError } from 'perdure';
import { openTelemetry } from 'perdure/telemetry';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';

import { rejection } from '../support/async.ts';
import { SHARED_STORES } from '../support/providers.ts';
import { Spans } from '../support/spans.ts';
import { SOON, useStore } from '../support/store.ts';
import { userDatabase } from '../support/user-database.ts';

const spans = new Spans();
afterAll(() => spans.end());
beforeEach(() => spans.clear());

describe.each(SHARED_STORES)('requests in a transaction, on $name', (kind) => {
  const store = useStore(kind);

  it('are producers, and an instance that they start nests below the start', async () => {
    const telemetry = openTelemetry();
    await store.start(
      (runtime) =>
        runtime.registerOrchestration('order', function* (ctx) {
          return yield* ctx.waitForEvent('go');
        }),
      { telemetry },
    );
    const client = new Client(store.provider, { telemetry });
    const user = await userDatabase(store.address);
    const id = store.id();
    try {
      await user.run('BEGIN');
      await client.within(user.tx).startOrchestration(id, 'order');
      await client.within(user.tx).raiseEvent(id, 'go', 1);
      await user.run('COMMIT');
      await client.handle(id).result({ timeout: SOON });
      await user.run('BEGIN');
      expect(await rejection((async () => client.within(user.tx).startOrchestration(id, 'order'))())).toBeInstanceOf(
        InstanceExistsError,
      );
      await user.run('ROLLBACK');
    } finally {
      await user.close();
    }
    const all = spans.all().filter(({ attributes }) => attributes['perdure.instance.id'] === id);
    const [start, refused] = all.filter(({ name }) => name === 'perdure.start order');
    expect(start?.error).toBeUndefined();
    expect(refused?.error).toContain('exists');
    expect(all.find(({ name }) => name === 'order')?.parentId).toBe(start?.spanId);
    expect(all.filter(({ name }) => name === 'perdure.raise go')).toHaveLength(1);
  });
});
