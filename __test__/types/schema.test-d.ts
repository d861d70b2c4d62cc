import {
  type ActivityDefinition,
  Client,
  defineActivity,
  defineOrchestration,
  type Future,
  type InstanceHandle,
  type OrchestrationDefinition,
  type Provider,
  Runtime,
  type SchemaInput,
  type SchemaOutput,
  type StandardSchema,
} from 'perdure';
import { describe, expectTypeOf, it } from 'vitest';

declare const provider: Provider;

interface Raw {
  at: string;
}
interface Parsed {
  at: Date;
}

declare const schema: StandardSchema<Raw, Parsed>;
declare const optional: StandardSchema<number | undefined, number>;
/** As in libraries: with further members, in a class of their own. */
declare const library: {
  parse(value: unknown): boolean;
  readonly '~standard': StandardSchema<'yes' | 'no', boolean>['~standard'] & { readonly extra: 1 };
};

describe('a schema', () => {
  it('has the types of its input and output', () => {
    expectTypeOf<SchemaInput<typeof schema>>().toEqualTypeOf<Raw>();
    expectTypeOf<SchemaOutput<typeof schema>>().toEqualTypeOf<Parsed>();
    expectTypeOf<SchemaOutput<typeof library>>().toEqualTypeOf<boolean>();
  });

  it('types the input of an orchestration, outside and inside', () => {
    const order = defineOrchestration(
      'order',
      function* (ctx, input) {
        expectTypeOf(input).toEqualTypeOf<Parsed>();
        expectTypeOf(ctx.instanceId).toBeString();
        return input.at.getTime();
      },
      { version: '1.2.0', input: schema },
    );
    expectTypeOf(order).toEqualTypeOf<OrchestrationDefinition<Raw, number>>();
    const client = new Client(provider);
    expectTypeOf(client.start(order, { at: '2020' })).resolves.toEqualTypeOf<InstanceHandle<number, unknown, Raw>>();
    // @ts-expect-error the input has the schema's input type, not its output type
    void client.start(order, { at: new Date() });
    // @ts-expect-error the input is missing
    void client.start(order);
    const counts = defineOrchestration(
      'counts',
      function* (_, n) {
        return n + 1;
      },
      { input: optional },
    );
    void client.start(counts);
    void client.start(counts, 5);
    // @ts-expect-error the input is of another type
    void client.start(counts, '5');
    const asks = defineOrchestration(
      'asks',
      function* (_, yes) {
        return !yes;
      },
      { input: library },
    );
    void client.start(asks, 'yes');
    // @ts-expect-error the input is of another type
    void client.start(asks, true);
  });

  it('must fit the function', () => {
    defineOrchestration(
      'a',
      // @ts-expect-error the function wants something else than the schema makes
      function* (_, input: { at: number }) {
        return input.at;
      },
      { input: schema },
    );
    // @ts-expect-error the function wants something else than the schema makes
    defineActivity('a', (_, input: string) => input, { input: schema });
    // @ts-expect-error a function is no schema
    defineOrchestration('a', function* () {}, { input: (value: unknown) => value });
    // @ts-expect-error an object of types is no schema
    defineActivity('a', () => 1, { input: { at: 'string' } });
    // @ts-expect-error there is no such option
    defineOrchestration('a', function* () {}, { inptu: schema });
    // The output may be annotated with its own type.
    defineOrchestration(
      'a',
      function* (_, input: Parsed) {
        return input;
      },
      { input: schema },
    );
  });

  it('types the input of an activity, outside and inside', () => {
    const charge = defineActivity(
      'charge',
      async (ctx, input) => {
        expectTypeOf(input).toEqualTypeOf<Parsed>();
        expectTypeOf(ctx.attempt).toBeNumber();
        return 5;
      },
      { retry: { maxAttempts: 2 }, input: schema },
    );
    expectTypeOf(charge).toEqualTypeOf<ActivityDefinition<Raw, number>>();
    defineOrchestration('calls', function* (ctx) {
      expectTypeOf(yield* ctx.call(charge, { at: '2020' })).toEqualTypeOf<number>();
      // @ts-expect-error the input has the schema's input type, not its output type
      ctx.call(charge, { at: new Date() });
      // @ts-expect-error a call has no schema
      ctx.call(charge, { at: '2020' }, { input: schema });
    });
  });

  it('types an event', () => {
    defineOrchestration('waits', function* (ctx) {
      expectTypeOf(ctx.waitForEvent('e', schema)).toEqualTypeOf<Future<Parsed>>();
      expectTypeOf(yield* ctx.waitForEvent('e', library)).toEqualTypeOf<boolean>();
      expectTypeOf(yield* ctx.waitForEvent('e')).toBeUnknown();
      expectTypeOf(yield* ctx.waitForEvent<Raw>('e')).toEqualTypeOf<Raw>();
      // @ts-expect-error a text is no schema
      ctx.waitForEvent('e', 'schema');
    });
  });

  it('types the functions that are registered with it', () => {
    const runtime = new Runtime(provider);
    runtime.registerOrchestration(
      'a',
      function* (_, input) {
        expectTypeOf(input).toEqualTypeOf<Parsed>();
      },
      { input: schema },
    );
    runtime.registerActivity(
      'b',
      (_, input) => {
        expectTypeOf(input).toEqualTypeOf<Parsed>();
      },
      { input: schema },
    );
    runtime.register(defineActivity('c', (_, input) => input, { input: schema }));
  });
});
