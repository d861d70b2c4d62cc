// The read of another instance's values: `ctx.readState`, an inline activity of Perdure's own.

import type { ActivityContext } from '../activity/activity-context.ts';
import type { Issued } from '../driver/command.ts';
import type { SchedulerForOperations } from '../driver/operation.ts';
import { InstanceNotFoundError } from '../errors/errors.ts';
import { StoreActivityFuture, storeActivity } from './store-activity.ts';

/** The name of the activity in a history. Part of the format, as {@link StateRead} is. */
export const READ_STATE = 'perdure.readState';

/** The input of the activity, which a replay compares with that of the history. */
export interface StateRead {
  readonly id: string;
  /** Without a name, all values are read. */
  readonly name?: string;
}

/** A read. */
export class StateReadFuture<T> extends StoreActivityFuture<T> {
  private readonly id: string;

  constructor(scheduler: SchedulerForOperations, issued: Issued, id: string) {
    super(scheduler, issued, READ_STATE, attempt);
    this.id = id;
  }

  override describe(): string {
    return `the state of instance '${this.id}'`;
  }
}

const attempt = storeActivity((ctx, { id, name }: StateRead) =>
  name === undefined ? valuesOf(ctx, id) : valueOf(ctx, id, name),
);

async function valuesOf({ client }: ActivityContext, id: string): Promise<Map<string, unknown>> {
  const state = await client.getState(id);
  if (state === null) throw notFound(id);
  return new Map(Array.from(state, ([name, { value }]) => [name, value]));
}

async function valueOf({ client }: ActivityContext, id: string, name: string): Promise<unknown> {
  const found = await client.getState(id, name);
  if (found === null && (await client.getStatus(id)) === null) throw notFound(id);
  return found?.value;
}

function notFound(instanceId: string): InstanceNotFoundError {
  return new InstanceNotFoundError(`there is no instance '${instanceId}'`, { instanceId });
}
