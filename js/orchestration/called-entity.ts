// The types of an entity, as orchestrations and clients call it.

import type { Future } from '../driver/future.ts';
import type { MessageArguments } from './messages.ts';

/** The input of a handler or a read; `undefined` if it has none. */
export type EntityInput<F> = F extends (first: any, ...rest: infer A) => unknown
  ? A extends readonly []
    ? undefined
    : A[0]
  : never;

/** The answer of a handler. */
export type EntityAnswer<F> = F extends (...args: any) => Generator<any, infer O, any> ? O : never;

/** The answer of a read. */
export type EntityReading<F> = F extends (...args: any) => infer O ? O : never;

/** The part of an `EntityDefinition` that a call of the entity uses. */
export interface CallableEntity<H = any, R = any> {
  readonly kind: 'orchestration';
  readonly name: string;
  readonly version: string;
  readonly entity: {
    readonly initial: (key: string) => any;
    readonly handlers: H;
    readonly reads: R;
  };
}

/**
 * An entity as an orchestration calls it: a method for each handler and each read, `send` for one-way calls, and
 * `delete`.
 */
export type CalledEntity<H, R> = {
  readonly [Name in keyof H]: (...input: MessageArguments<EntityInput<H[Name]>>) => Future<EntityAnswer<H[Name]>>;
} & {
  readonly [Name in keyof R]: (...input: MessageArguments<EntityInput<R[Name]>>) => Future<EntityReading<R[Name]>>;
} & {
  /** The handlers, called without an answer. The future settles when the call is durable. */
  readonly send: {
    readonly [Name in keyof H]: (...input: MessageArguments<EntityInput<H[Name]>>) => Future<void>;
  };
  /** Deletes the entity after the calls before it. A later call makes it anew. */
  delete(): Future<void>;
};
