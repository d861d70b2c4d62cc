import {
  Client,
  defineOrchestration,
  defineQuery,
  type Provider,
  type QueryDefinition,
  type StandardSchema,
} from 'perdure';
import * as free from 'perdure/orchestration';
import { describe, expectTypeOf, it } from 'vitest';

declare const provider: Provider;
declare const schema: StandardSchema<{ at: string }, { at: Date }>;

const over = defineQuery<number, boolean>('over');
const count = defineQuery<undefined, number>('count');
const since = defineQuery('since', { input: schema });

describe('a query', () => {
  it('has the types of its input and its answer', () => {
    expectTypeOf(over).toEqualTypeOf<QueryDefinition<number, boolean>>();
    expectTypeOf(since).toEqualTypeOf<QueryDefinition<{ at: string }, unknown, { at: Date }>>();
  });

  it('types what a client sends and gets', async () => {
    const client = new Client(provider);
    expectTypeOf(await client.query('id', over, 1)).toEqualTypeOf<boolean>();
    expectTypeOf(await client.query('id', count)).toEqualTypeOf<number>();
    expectTypeOf(await client.query('id', 'any name', { any: 'thing' })).toEqualTypeOf<unknown>();
    expectTypeOf(await client.handle('id').query(over, 1, {})).toEqualTypeOf<boolean>();
    // @ts-expect-error the input is missing
    void client.query('id', over);
    // @ts-expect-error the input is of another type
    void client.query('id', over, 'one');
    // @ts-expect-error there is no such option
    void client.query('id', over, 1, { signals: 'a' });
  });

  it('types what its handler gets and returns', () => {
    defineOrchestration('queries', function* (ctx) {
      ctx.onQuery(over, (limit) => limit > 1);
      ctx.onQuery(since, ({ at }) => expectTypeOf(at).toEqualTypeOf<Date>());
      free.onQuery('any name', (input: { any: string }) => input.any);
      // @ts-expect-error the answer is of another type
      ctx.onQuery(count, () => 'one');
      yield* ctx.sleep('1s');
    });
  });
});
