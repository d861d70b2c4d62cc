// A history whose instance continues as new while a command reads it.

import { describe, expect, it } from 'vitest';

import { historyPages } from '../../js/cli/history-pages.ts';
import { STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('all pages are of the execution that the first one found', async () => {
    await store.start((registering) => {
      registering.registerActivity('step', (_ctx, n: number) => n);
      registering.registerOrchestration('rounds', function* (ctx) {
        for (let n = 0; n < 400; n += 1) yield ctx.scheduleActivity('step', n);
        ctx.setCustomStatus({ waitsIn: ctx.executionId });
        yield ctx.waitForEvent('go');
        if (ctx.executionId === 1) yield ctx.continueAsNew();
      });
    });
    const id = store.id('rounds');
    await store.client.startOrchestration(id, 'rounds');
    await store.client.waitForStatusChange(id, 0, undefined, SOON);

    const pages = historyPages(store.client as never, id, undefined, 1);
    const first = (await pages.next()).value;
    expect(first).toMatchObject({ executionId: 1, next: 501 });
    await store.client.raiseEvent(id, 'go');
    await store.client.waitForStatusChange(id, 1, undefined, SOON);
    expect((await store.client.getStatus(id))?.executionId).toBe(2);

    const rest = [];
    for await (const page of pages) rest.push(page);
    expect(rest.map(({ executionId }) => executionId)).toEqual(rest.map(() => 1));
    const events = [first, ...rest].flatMap((page) => page?.events ?? []);
    expect(events.map(({ eventId }) => eventId)).toEqual(events.map((_, n) => n + 1));
    expect(events.at(-1)?.kind).toBe('ExecutionContinuedAsNew');
    await store.client.raiseEvent(id, 'go');
    await store.client.waitForOrchestration(id, SOON);
  });
});
