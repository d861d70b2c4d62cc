// The parts of a dashboard that all routes use, and the instance that a request names.

import type { Client } from '../client/client.ts';
import type { InstanceDescription } from '../client/instance-description.ts';
import type { InstanceStatus } from '../client/instance-status.ts';
import type { DashboardOptions } from './options.ts';
import type { OrchestrationSampler } from './orchestrations.ts';
import type { Presenter } from './presenter.ts';
import { Refusal } from './refusal.ts';

export interface RouteContext {
  readonly client: Client;
  readonly presenter: Presenter;
  readonly options: DashboardOptions;
  readonly orchestrations: OrchestrationSampler;
  /** Logs an error, if its refusal stands for a failure of the server. */
  report(refusal: Refusal, error: unknown): void;
}

/** @throws Refusal when there is no instance of that id */
export async function statusOf(client: Client, id: string): Promise<InstanceStatus> {
  return found(id, await client.getStatus(id));
}

/** @throws Refusal when there is no instance of that id */
export async function descriptionOf(client: Client, id: string): Promise<InstanceDescription> {
  return found(id, await client.describe(id));
}

/** @throws Refusal when there is no instance of that id */
export function found<T>(id: string, instance: T | null): T {
  if (instance === null) throw new Refusal(404, 'INSTANCE_NOT_FOUND', `there is no instance '${id}'`);
  return instance;
}

/** @throws Refusal when the instance does not exist, or has no such execution */
export async function checkExecution(client: Client, id: string, executionId: number): Promise<void> {
  const { executionId: last } = await statusOf(client, id);
  if (executionId > last)
    throw new Refusal(
      404,
      'INSTANCE_NOT_FOUND',
      `instance '${id}' has no execution ${executionId}, its last one is ${last}`,
    );
}
