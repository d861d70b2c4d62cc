import {
  Client,
  defineEvent,
  defineOrchestration,
  defineQueue,
  type EventDefinition,
  type Future,
  type Provider,
  type QueueDefinition,
  type StandardSchema,
} from 'perdure';
import * as free from 'perdure/orchestration';
import { describe, expectTypeOf, it } from 'vitest';

declare const provider: Provider;
declare const schema: StandardSchema<{ at: string }, { at: Date }>;
/** As in libraries: with further members, in a class of their own. */
declare const library: {
  parse(value: unknown): boolean;
  readonly '~standard': StandardSchema<'yes' | 'no', boolean>['~standard'] & { readonly extra: 1 };
};

interface Approval {
  by: string;
}

const counted = defineOrchestration('counted', function* (_ctx, from: number) {
  return from;
});
const bare = defineOrchestration('bare', function* () {});

const approved = defineEvent<Approval>('approved');
const stop = defineEvent('stop');
const late = defineEvent<number | undefined>('late');
const asked = defineEvent('asked', schema);
const answers = defineQueue('answers', library);
const tasks = defineQueue<{ page: number }>('tasks');

describe('a definition of messages', () => {
  it('has the types of what is sent and received', () => {
    expectTypeOf(approved).toEqualTypeOf<EventDefinition<Approval>>();
    expectTypeOf(stop).toEqualTypeOf<EventDefinition<undefined>>();
    expectTypeOf(asked).toEqualTypeOf<EventDefinition<{ at: string }, { at: Date }>>();
    expectTypeOf(answers).toEqualTypeOf<QueueDefinition<'yes' | 'no', boolean>>();
    expectTypeOf(defineEvent<{ at: string }>('a', {} as StandardSchema<{ at: string }>)).toEqualTypeOf<
      EventDefinition<{ at: string }>
    >();
    // @ts-expect-error the schema is of another type
    defineEvent<Approval>('approved', schema);
  });

  it('types what a client sends', () => {
    const client = new Client(provider);
    void client.raiseEvent('id', approved, { by: 'Ada' });
    void client.raiseEvent('id', stop);
    void client.raiseEvent('id', stop, undefined);
    void client.raiseEvent('id', late);
    void client.raiseEvent('id', late, 5);
    void client.raiseEvent('id', asked, { at: '2020' });
    void client.enqueueEvent('id', answers, 'yes');
    void client.handle('id').raiseEvent(approved, { by: 'Ada' });
    void client.handle('id').enqueueEvent(tasks, { page: 1 });
    // By name anything goes.
    void client.raiseEvent('id', 'approved');
    void client.raiseEvent('id', 'approved', 5);
    void client.handle('id').enqueueEvent('tasks', { any: 'thing' });
    void client.raiseEvent('id', approved, { by: 'Ada' }, { start: { definition: counted, input: 5 } });
    void client.raiseEvent('id', stop, undefined, { start: { definition: bare, onConflict: 'restartIfTerminal' } });
    void client.handle('id').enqueueEvent('tasks', 1, { start: { name: 'counted', version: '2.0.0', input: 'any' } });
    // @ts-expect-error the input of the receiver is of another type
    void client.raiseEvent('id', approved, { by: 'Ada' }, { start: { definition: counted, input: 'five' } });
    // @ts-expect-error the input of the receiver is missing
    void client.raiseEvent('id', approved, { by: 'Ada' }, { start: { definition: counted } });
    // @ts-expect-error the data is of another type
    void client.raiseEvent('id', approved, { by: 5 });
    // @ts-expect-error the data is missing
    void client.raiseEvent('id', approved);
    // @ts-expect-error the event has no data
    void client.raiseEvent('id', stop, 5);
    // @ts-expect-error the sender has the schema's input type, not its output type
    void client.raiseEvent('id', asked, { at: new Date() });
    // @ts-expect-error the data is of another type
    void client.enqueueEvent('id', answers, 'maybe');
    // @ts-expect-error a queue is no event
    void client.raiseEvent('id', tasks, { page: 1 });
    // @ts-expect-error an event is no queue
    void client.enqueueEvent('id', approved, { by: 'Ada' });
    // @ts-expect-error the data is missing
    void client.handle('id').raiseEvent(approved);
    // @ts-expect-error the data is of another type
    void client.handle('id').enqueueEvent(tasks, { page: 'one' });
  });

  it('types what an orchestration receives and sends', () => {
    defineOrchestration('messages', function* (ctx) {
      expectTypeOf(ctx.waitForEvent(approved)).toEqualTypeOf<Future<Approval>>();
      expectTypeOf(yield* ctx.waitForEvent(asked)).toEqualTypeOf<{ at: Date }>();
      expectTypeOf(yield* ctx.pollEvent(asked)).toEqualTypeOf<{ at: Date } | undefined>();
      expectTypeOf(yield* ctx.dequeueEvent(answers)).toEqualTypeOf<boolean>();
      expectTypeOf(yield* ctx.tryDequeue(tasks)).toEqualTypeOf<{ page: number } | undefined>();
      expectTypeOf(yield* ctx.drainQueue(tasks, 5)).toEqualTypeOf<{ page: number }[]>();
      expectTypeOf(yield* ctx.dequeueBatch(answers, 5, '1s')).toEqualTypeOf<boolean[]>();
      expectTypeOf(yield* free.waitForEvent(asked)).toEqualTypeOf<{ at: Date }>();
      expectTypeOf(yield* ctx.raiseEvent('id', asked, { at: '2020' })).toEqualTypeOf<void>();
      const first = yield* ctx.race(ctx.waitForEvent(approved), ctx.sleep('1h'));
      if (first.index === 0) expectTypeOf(first.value).toEqualTypeOf<Approval>();
      yield* free.enqueueEvent('id', tasks, { page: 1 });
      // @ts-expect-error a queue is not waited for
      ctx.waitForEvent(tasks);
      // @ts-expect-error an event is not dequeued
      ctx.dequeueEvent(approved);
      // @ts-expect-error the event has data of another type
      ctx.waitForEvent<number>(approved);
      // @ts-expect-error the data is missing
      ctx.raiseEvent('id', approved);
      // @ts-expect-error the data is of another type
      ctx.enqueueEvent('id', tasks, 5);
      // @ts-expect-error the data is of another type
      free.raiseEvent('id', approved, 5);
    });
  });
});
