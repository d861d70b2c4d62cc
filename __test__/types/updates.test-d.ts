import {
  Client,
  defineOrchestration,
  defineUpdate,
  type Provider,
  type StandardSchema,
  type UpdateDefinition,
} from 'perdure';
import * as free from 'perdure/orchestration';
import { describe, expectTypeOf, it } from 'vitest';

declare const provider: Provider;
declare const schema: StandardSchema<{ at: string }, { at: Date }>;

const add = defineUpdate<number, string>('add');
const reset = defineUpdate('reset');
const total = defineOrchestration('total', function* (_ctx, from: string) {
  return from;
});
const book = defineUpdate('book', { input: schema });

describe('an update', () => {
  it('has the types of its input and its answer', () => {
    expectTypeOf(add).toEqualTypeOf<UpdateDefinition<number, string>>();
    expectTypeOf(reset).toEqualTypeOf<UpdateDefinition<undefined, unknown>>();
    expectTypeOf(book).toEqualTypeOf<UpdateDefinition<{ at: string }, unknown, { at: Date }>>();
  });

  it('types what a client sends and gets', async () => {
    const client = new Client(provider);
    expectTypeOf(await client.update('id', add, 1)).toEqualTypeOf<string>();
    expectTypeOf(await client.update('id', 'any name', { any: 'thing' })).toEqualTypeOf<unknown>();
    expectTypeOf(await client.handle('id').update(add, 1, { timeout: '5s', updateId: 'a' })).toEqualTypeOf<string>();
    void client.update('id', reset);
    void client.update('id', book, { at: '2020' });
    // @ts-expect-error the input is missing
    void client.update('id', add);
    // @ts-expect-error the input is of another type
    void client.update('id', add, 'one');
    // @ts-expect-error the schema takes a text
    void client.handle('id').update(book, { at: new Date() });
    // @ts-expect-error there is no such option
    void client.update('id', add, 1, { updateID: 'a' });
  });

  it('types the start of its instance', async () => {
    const client = new Client(provider);
    const start = { definition: total, input: 'from' };
    expectTypeOf(await client.updateWithStart('id', add, 1, { start, timeout: '5s' })).toEqualTypeOf<string>();
    void client.updateWithStart('id', reset, undefined, { start: { name: 'any', input: 1 } });
    // @ts-expect-error the start is missing
    void client.updateWithStart('id', add, 1, {});
    // @ts-expect-error the input of the update is of another type
    void client.updateWithStart('id', add, 'one', { start });
    // @ts-expect-error the input of the start is of another type
    void client.updateWithStart('id', add, 1, { start: { definition: total, input: 1 } });
  });

  it('types what its handler gets and returns', () => {
    defineOrchestration('updates', function* (ctx) {
      ctx.onUpdate(add, function* (by) {
        expectTypeOf(by).toEqualTypeOf<number>();
        return `${by}`;
      });
      ctx.onUpdate(
        book,
        function* ({ at }) {
          yield* ctx.sleep(at);
        },
        { validate: ({ at }) => expectTypeOf(at).toEqualTypeOf<Date>(), onEnd: 'reject' },
      );
      free.onUpdate('any name', function* (input: { any: string }) {
        return input.any;
      });
      expectTypeOf(yield* ctx.update('id', add, 1)).toEqualTypeOf<string>();
      expectTypeOf(yield* free.update('id', add, 1)).toEqualTypeOf<string>();
      expectTypeOf(yield* ctx.finishUpdates()).toEqualTypeOf<void>();
      // @ts-expect-error the answer is of another type
      ctx.onUpdate(add, function* () {
        return 5;
      });
      // @ts-expect-error the input is of another type
      ctx.update('id', add, 'one');
    });
  });
});
