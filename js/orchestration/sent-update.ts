// The update of another instance: `ctx.update`, an inline activity of Perdure's own.

import type { Issued } from '../driver/command.ts';
import type { SchedulerForOperations } from '../driver/operation.ts';
import { StoreActivityFuture, storeActivity } from './store-activity.ts';

/** The name of the activity in a history. Part of the format, as {@link UpdateRequest} is. */
export const UPDATE = 'perdure.update';

/** The input of the activity, which a replay compares with that of the history. */
export interface UpdateRequest {
  readonly id: string;
  readonly update: string;
  /** Drawn once, so that each attempt waits for the same answer. */
  readonly updateId: string;
  readonly input?: unknown;
}

/** The answer of an update. */
export class SentUpdateFuture<T> extends StoreActivityFuture<T> {
  private readonly request: UpdateRequest;

  constructor(scheduler: SchedulerForOperations, issued: Issued, request: UpdateRequest) {
    super(scheduler, issued, UPDATE, attempt);
    this.request = request;
  }

  override describe(): string {
    return `the answer of instance '${this.request.id}' to update '${this.request.update}'`;
  }
}

const attempt = storeActivity(({ client, signal }, { id, update, updateId, input }: UpdateRequest) =>
  client.update(id, update, input, { updateId, signal }),
);
