// The code of batches: it collects the inputs of an instance. See docs/internals/admission.md.

import type { Future } from '../driver/future.ts';
import { property } from '../util/show.ts';
import { batchQueueOf } from '../values/batch.ts';
import { parseSync, type StandardSchema } from '../values/schema.ts';
import type { Batches } from './batch.ts';
import type { QueueDefinition } from './messages.ts';

/** The part of the context that collects the inputs. */
interface CollectingContext {
  readonly name: string;
  drainQueue(queue: QueueDefinition, max: number): Future<any[]>;
}

/**
 * Returns the function of the orchestration: it collects the inputs of its batch, and calls the function of the
 * definition with them. An instance that was started in any other way has one input, its own.
 */
export function batchCode<C extends CollectingContext>(
  fn: (ctx: C, inputs: any[]) => Generator<any, any, any>,
  { max }: Batches,
  schema: StandardSchema | undefined,
): (ctx: C, input: any) => Generator<any, any, any> {
  return function* batch(ctx, input) {
    const key = property(input, 'batch');
    const inputs = typeof key === 'string' ? yield* ctx.drainQueue(inputsOf(ctx, key, schema), max) : [];
    if (inputs.length > 0) return yield* fn(ctx, inputs);
    const only = schema === undefined ? input : parseSync(schema, input, 'input', `orchestration '${ctx.name}'`);
    return yield* fn(ctx, [only]);
  };
}

/** Returns the queue of the inputs. */
function inputsOf(ctx: CollectingContext, key: string, schema: StandardSchema | undefined) {
  return { kind: 'queue', name: batchQueueOf({ orchestration: ctx.name, key }), schema } as const;
}
