// The options of a message to an instance, which may start the instance.

import type { StandardSchema } from '../values/schema.ts';
import type { AdmissionOptions } from './admission.ts';
import type { Batches } from './batch.ts';

/** Options of `raiseEvent` and `enqueueEvent`. */
export interface SendOptions<R = any> {
  /** Starts the receiver, in the same commit, if there is no instance of that id. Default: it must be there. */
  start?: ReceiverStart<R>;
}

/** The data of a message and the options of its sending, as the last arguments of a call. */
export type SendArguments<I, R = any> = undefined extends I
  ? [data?: I, options?: SendOptions<R>]
  : [data: I, options?: SendOptions<R>];

/** The start of the receiver of a message: by its definition, or by the name of its orchestration. */
export type ReceiverStart<R = any> = ReceiverOptions &
  (
    | ({
        /** A result of `defineOrchestration`. The instance is started in the version of the definition. */
        definition: ReceiverDefinition<R>;
      } & (undefined extends R ? { input?: R } : { input: R }))
    | {
        /** Name that the orchestration is registered under. */
        name: string;
        /** Version of the orchestration. Default: as in `client.startOrchestration`. */
        version?: string;
        /** Input of the instance. */
        input?: unknown;
      }
  );

/** The part of an `OrchestrationDefinition` that the start of a receiver uses. */
export interface ReceiverDefinition<R = any> {
  readonly kind: 'orchestration';
  readonly name: string;
  readonly version: string;
  readonly fn: (ctx: any, input: R) => unknown;
  readonly input?: StandardSchema | undefined;
  readonly batch?: Batches | undefined;
}

/** Options of the start of a receiver. They have no effect on an instance that is there. */
export interface ReceiverOptions extends AdmissionOptions {
  /** Instances of higher priority are taken first. Default 0. */
  priority?: number;
  /** Texts to find the instance by. */
  tags?: Readonly<Record<string, string>>;
  /**
   * Behaviour when the instance of that id has ended. `'error'` (default) refuses the message. `'restartIfTerminal'`
   * replaces the instance. `'restartIfFailed'` replaces it unless it has completed, and then refuses the message.
   */
  onConflict?: ReceiverConflict;
}

/** The behaviour of the start of a receiver that has ended. */
export type ReceiverConflict = 'error' | 'restartIfTerminal' | 'restartIfFailed';
