// The read requests, by path.

import type { Client } from '../client/client.ts';
import type { HistoryPage } from '../client/history.ts';
import type { InstanceStatus } from '../client/instance-status.ts';
import type { AboutAnswer, HistoryAnswer, InstanceAnswer, InstancesAnswer, Shown } from './answers.ts';
import type { DashboardOptions } from './options.ts';
import type { Query } from './query.ts';
import { badRequest, Refusal } from './refusal.ts';
import { SHOWN_MAX, type Shower } from './shower.ts';

/** The parts of a dashboard that all routes use. */
export interface Site {
  readonly client: Client;
  readonly shower: Shower;
  readonly options: DashboardOptions;
  /** Logs an error, if its refusal stands for a failure of the server. */
  report(refusal: Refusal, error: unknown): void;
}

type Read = (site: Site, query: Query) => Promise<unknown>;

export const READS: Readonly<Record<string, Read>> = { about, instances, instance, history, value };

async function about({ client, options }: Site, query: Query): Promise<AboutAnswer> {
  query.only();
  return {
    store: { ...(await client.describeStore()) },
    readOnly: options.readOnly === true,
    hasRuntime: options.runtime !== undefined,
  };
}

async function instances({ client, shower }: Site, query: Query): Promise<InstancesAnswer> {
  const { items, cursor } = await client.listInstances(query.filter()).page();
  return { items: items.map((item) => shower.row(item)), cursor };
}

async function instance(site: Site, query: Query): Promise<InstanceAnswer> {
  return instanceOf(site, query.only('id').id());
}

/** @throws Refusal when there is no instance of that id */
export async function statusOf(client: Client, id: string): Promise<InstanceStatus> {
  const status = await client.getStatus(id);
  if (status === null) throw new Refusal(404, 'INSTANCE_NOT_FOUND', `there is no instance '${id}'`);
  return status;
}

/** @throws Refusal when there is no instance of that id */
export async function instanceOf({ client, shower }: Site, id: string): Promise<InstanceAnswer> {
  return shower.instance(await statusOf(client, id));
}

async function history(site: Site, query: Query): Promise<HistoryAnswer> {
  const { id, ...part } = query.only('id', 'execution', 'from', 'limit').part();
  return shownPage(site, id, await site.client.historyPage(id, part));
}

export function shownPage({ shower }: Site, id: string, { executionId, events, next }: HistoryPage): HistoryAnswer {
  return { executionId, events: events.map((event) => shower.event(event, id)), next };
}

/** Returns a whole value: that of an event, or a current one of an instance. */
async function value({ client, shower }: Site, query: Query): Promise<Shown> {
  const id = query.only('id', 'execution', 'event', 'of').id();
  const executionId = query.number('execution', 1);
  const eventId = query.number('event', 1);
  const of = query.text('of');
  if (eventId !== undefined && of === undefined) {
    const {
      events: [event],
    } = await client.historyPage(id, {
      from: eventId,
      limit: 1,
      ...(executionId === undefined ? {} : { executionId }),
    });
    const shown = event && shower.eventValue(event, id, SHOWN_MAX.whole);
    if (shown === undefined) throw badRequest('the event does not exist, or has no value');
    return shown;
  }
  if (eventId !== undefined || (of !== 'output' && of !== 'error' && of !== 'customStatus')) {
    throw badRequest(
      'the parameter event must be the number of an event, or the parameter of must be output, error or customStatus',
    );
  }
  const status = await statusOf(client, id);
  const shown =
    of === 'error'
      ? shower.error(status, SHOWN_MAX.whole)
      : shower.value(status[of], { instanceId: id, orchestration: status.name, kind: of }, SHOWN_MAX.whole);
  if (shown === undefined) throw badRequest(`the instance has no ${of}`);
  return shown;
}
