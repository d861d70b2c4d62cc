// Messages that start their receiver.

import {
  Client,
  defineEvent,
  defineOrchestration,
  type OrchestrationContext,
  type PerdureError,
  type Runtime,
} from 'perdure';
import { describe, expect, it } from 'vitest';

import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

/** Adds up the numbers of the queue `add`, from its input on, until one is `null`. */
function* sums(ctx: OrchestrationContext, from = 0): Generator<any, number, any> {
  let sum = from;
  for (;;) {
    const next = yield* ctx.dequeueEvent<number | null>('add');
    if (next === null) return sum;
    sum += next;
  }
}

const summed = defineOrchestration('summed', sums);
interface Told {
  readonly to: string;
  readonly onConflict?: 'error' | 'restartIfTerminal' | 'restartIfFailed';
}

const gone = defineEvent<number>('gone');

/** Sends a message with a start, and returns what became of it. */
const tells = defineOrchestration('tells', function* (ctx, { to, onConflict }: Told): Generator<any, string, any> {
  const start = { definition: summed, input: 100, ...(onConflict && { onConflict }) };
  try {
    yield* ctx.enqueueEvent(to, 'add', 5, { start });
    return 'sent';
  } catch (error) {
    return `${(error as PerdureError).code}: ${(error as Error).message}`;
  }
});

function register(runtime: Runtime): void {
  runtime.register(summed);
  runtime.registerOrchestration('sums', sums);
  runtime.registerOrchestration('fails', function* () {
    throw new Error('no');
  });
  runtime.registerOrchestration('sends', function* (ctx, { id, times }) {
    for (let sent = 1; sent <= times; sent += 1)
      yield ctx.enqueueEvent(id, 'add', sent, { start: { definition: summed, input: 100 } });
  });
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const start = { definition: summed, input: 100 };

  async function output(id: string): Promise<unknown> {
    await store.client.enqueueEvent(id, 'add', null);
    return (await store.client.waitForOrchestration(id, { timeout: SOON })).output;
  }

  it('a message starts an instance that is absent, and reaches one that is there', async () => {
    await store.start(register);
    const id = store.id();
    await store.client.enqueueEvent(id, 'add', 1, { start });
    await store.client.enqueueEvent(id, 'add', 2, { start: { ...start, input: 900 } });
    expect(await output(id)).toBe(103);
  });

  it('names the orchestration, its version, tags and priority', async () => {
    const id = store.id();
    const options = { name: 'sums', version: '1.0.0', input: 7, tags: { kind: 'sum' }, priority: 3 };
    await store.client.enqueueEvent(id, 'add', 1, { start: options });
    expect(await store.client.getStatus(id)).toMatchObject({ status: 'Pending', tags: { kind: 'sum' } });
    await store.start(register);
    expect(await output(id)).toBe(8);
  });

  it.runIf(SHARED_STORES.includes(kind))('two senders make one instance, and no message is lost', async () => {
    await store.start(register);
    const other = new Client(await store.open());
    const id = store.id();
    const sent = Array.from({ length: 100 }, (_, n) =>
      (n % 2 === 0 ? store.client : other).enqueueEvent(id, 'add', n, { start }),
    );
    await Promise.all(sent);
    expect(await output(id)).toBe(100 + 4_950);
  });

  it('an orchestration starts the receiver of its message, once', async () => {
    await store.start(register);
    const id = store.id();
    const senders = [store.id(), store.id()];
    for (const sender of senders) await store.client.startOrchestration(sender, 'sends', { id, times: 3 });
    for (const sender of senders)
      expect(await store.client.waitForOrchestration(sender, { timeout: SOON })).toMatchObject({ status: 'Completed' });
    expect(await output(id)).toBe(112);
  });

  it('an instance that has ended refuses the message, or is replaced', async () => {
    await store.start(register);
    const id = store.id();
    await store.client.enqueueEvent(id, 'add', 1, { start });
    expect(await output(id)).toBe(101);
    for (const onConflict of ['error', 'restartIfFailed'] as const)
      await expect(
        store.client.enqueueEvent(id, 'add', 1, { start: { ...start, onConflict } }),
        onConflict,
      ).rejects.toMatchObject({ code: 'RUNTIME_STATE' });
    await store.client.enqueueEvent(id, 'add', 5, { start: { ...start, onConflict: 'restartIfTerminal' } });
    expect(await output(id)).toBe(105);
  });

  it('an instance that has failed is replaced if the start says so', async () => {
    await store.start(register);
    const id = store.id();
    await store.client.startOrchestration(id, 'fails');
    await store.client.waitForOrchestration(id, { timeout: SOON });
    await store.client.enqueueEvent(id, 'add', 5, { start: { ...start, onConflict: 'restartIfFailed' } });
    expect(await output(id)).toBe(105);
  });

  it('the receiver of an orchestration that has ended is treated as its start says', async () => {
    await store.start((runtime) => {
      register(runtime);
      runtime.register(tells);
    });
    const [completed, failed] = [store.id('completed'), store.id('failed')];
    for (const id of [completed, failed]) {
      await store.client.startOrchestration(id, id === failed ? 'fails' : 'sums');
      if (id === completed) await store.client.enqueueEvent(id, 'add', null);
      await store.client.waitForOrchestration(id, { timeout: SOON });
    }
    const send = async (to: string, onConflict?: 'error' | 'restartIfTerminal' | 'restartIfFailed') =>
      (await store.client.start(tells, { to, ...(onConflict && { onConflict }) })).result({ timeout: SOON });
    const refused = (id: string) => `RUNTIME_STATE: instance '${id}' has ended and takes no more messages`;

    for (const id of [completed, failed]) {
      const before = await store.client.getStatus(id);
      expect(await send(id)).toBe(refused(id));
      expect(await send(id, 'error')).toBe(refused(id));
      if (id === completed) expect(await send(id, 'restartIfFailed')).toBe(refused(id));
      expect(await store.client.getStatus(id)).toEqual(before);
    }
    expect(await send(failed, 'restartIfFailed')).toBe('sent');
    expect(await output(failed)).toBe(105);
    expect(await send(completed, 'restartIfTerminal')).toBe('sent');
    // The instance goes on, so the next message reaches it and starts nothing.
    expect(await send(completed, 'restartIfTerminal')).toBe('sent');
    expect(await output(completed)).toBe(110);
  });

  it('what is wrong is refused, and nothing is started', async () => {
    const id = store.id();
    const wrong: [start: object, says: string][] = [
      [{}, 'client.raiseEvent: start must have a definition or a name'],
      [{ definition: summed, name: 'sums' }, 'not both'],
      [{ definition: gone }, 'start.definition must be what defineOrchestration returned'],
      [{ name: '' }, 'start.name'],
      [{ name: 'sums', onConflict: 'terminateAndRestart' }, "start.onConflict must be one of 'error'"],
      [{ name: 'sums', inputs: 1 }, 'did you mean `input`?'],
    ];
    for (const [start, says] of wrong)
      await expect(store.client.raiseEvent(id, 'go', 1, { start } as never), says).rejects.toThrow(says);
    await expect(
      store.client.raiseEvent(id, 'go', 1, { start: { name: 'sums', input: 10n ** 40n, tags: { a: 1 } } } as never),
    ).rejects.toThrow(TypeError);
    await expect(store.client.raiseEvent(id, 'go', () => {}, { start })).rejects.toMatchObject({ code: 'PAYLOAD' });
    expect(await store.client.getStatus(id)).toBeNull();
  });
});
