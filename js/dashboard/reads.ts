// The read requests, by path.

import type { HistoryPage } from '../client/history.ts';
import type {
  AboutAnswer,
  ExecutionsAnswer,
  FactsAnswer,
  FormAnswer,
  HistoryAnswer,
  InstanceAnswer,
  InstancesAnswer,
  OrchestrationsAnswer,
  PreviewAnswer,
  StartableAnswer,
  StateAnswer,
  TakeoversAnswer,
  ValueText,
  WaitsAnswer,
} from './answers.ts';
import { namesOf } from './entities.ts';
import { logs } from './lines.ts';
import { locks } from './locks.ts';
import { SHOWN_MAX } from './presenter.ts';
import { preview } from './preview.ts';
import type { Query } from './query.ts';
import { queues } from './queues.ts';
import { badRequest } from './refusal.ts';
import { checkExecution, descriptionOf, found, type RouteContext, statusOf } from './route-context.ts';
import { schedule, schedules } from './schedules.ts';
import { formOf, startableOf } from './starting.ts';
import { entries, entryText, streams } from './streams.ts';
import { tokens } from './tokens.ts';
import { tree } from './tree.ts';

type Read = (context: RouteContext, query: Query) => Promise<unknown>;

export const READS: Readonly<Record<string, Read>> = {
  about,
  instances,
  instance,
  waits,
  state,
  streams,
  stream: entries,
  takeovers,
  tokens,
  locks,
  schedules,
  schedule,
  queues,
  preview: countOf,
  orchestrations,
  startable,
  form,
  history,
  value,
  logs,
  facts,
  tree,
  executions,
};

/** The reads about an instance that also show others, as the list of instances does. */
export const WIDE_READS: ReadonlySet<string> = new Set(['tree']);

/** Executions of an answer without `limit`. */
const EXECUTIONS = 20;

/** Most executions of an answer. */
const EXECUTIONS_MAX = 100;

async function about({ client, options }: RouteContext, query: Query): Promise<AboutAnswer> {
  query.only();
  const { entities = [] } = options;
  const named = entities.map((definition) => ({ name: definition.name, ...namesOf(definition) }));
  return {
    store: { ...(await client.describeStore()) },
    readOnly: options.readOnly === true,
    hasRuntime: options.runtime !== undefined,
    ...(named.length === 0 ? {} : { entities: named }),
  };
}

async function instances({ client, presenter }: RouteContext, query: Query): Promise<InstancesAnswer> {
  const { items, cursor } = await client.listInstances(query.filter()).page();
  return { items: items.map((item) => presenter.row(item)), cursor };
}

function countOf({ client }: RouteContext, query: Query): Promise<PreviewAnswer> {
  const { limit: _, cursor: __, ...filter } = query.filter();
  return preview(client, filter);
}

function orchestrations({ orchestrations }: RouteContext, query: Query): Promise<OrchestrationsAnswer> {
  query.only();
  return orchestrations.read();
}

async function startable({ orchestrations, options }: RouteContext, query: Query): Promise<StartableAnswer> {
  query.only();
  return { items: startableOf(options.runtime, await orchestrations.read()) };
}

async function form({ options }: RouteContext, query: Query): Promise<FormAnswer> {
  const { name, version } = query.orchestration();
  return formOf(options.runtime, name, version);
}

async function instance({ client, presenter }: RouteContext, query: Query): Promise<InstanceAnswer> {
  return presenter.instance(await statusOf(client, query.only('id').id()));
}

async function waits({ client, presenter }: RouteContext, query: Query): Promise<WaitsAnswer> {
  return presenter.waits(await descriptionOf(client, query.only('id').id()));
}

async function state({ client, presenter }: RouteContext, query: Query): Promise<StateAnswer> {
  const id = query.only('id').id();
  const status = await statusOf(client, id);
  return presenter.state(found(id, await client.getState(id)), status);
}

async function takeovers({ client, presenter }: RouteContext, query: Query): Promise<TakeoversAnswer> {
  return presenter.takeovers(await client.takeovers(query.only('id').id()));
}

function facts({ client }: RouteContext, query: Query): Promise<FactsAnswer> {
  return client.facts(query.only('id').id());
}

async function executions({ client }: RouteContext, query: Query): Promise<ExecutionsAnswer> {
  const id = query.only('id', 'from', 'limit').id();
  const limit = query.number('limit', 1, EXECUTIONS_MAX) ?? EXECUTIONS;
  const from = query.number('from', 1);
  if (from !== undefined) await checkExecution(client, id, from);
  const { items, next } = await client.executions(id, { limit, ...(from === undefined ? {} : { from }) }).page();
  return {
    items: items.map(({ executionId, version, status, startedAt, endedAt, events }) => ({
      executionId,
      version,
      status,
      startedAtMs: startedAt.getTime(),
      ...(endedAt === undefined ? {} : { endedAtMs: endedAt.getTime() }),
      events,
    })),
    next,
  };
}

async function history(context: RouteContext, query: Query): Promise<HistoryAnswer> {
  const { id, ...part } = query.only('id', 'execution', 'from', 'limit').part();
  return shownPage(context, id, await context.client.historyPage(id, part));
}

export function shownPage(
  { presenter }: RouteContext,
  id: string,
  { executionId, events, next }: HistoryPage,
): HistoryAnswer {
  return { executionId, events: events.map((event) => presenter.event(event, id)), next };
}

/**
 * Returns a value, whole or up to `most` characters: that of an event or of an entry of a stream, or a current one of
 * an instance.
 */
async function value(context: RouteContext, query: Query): Promise<ValueText> {
  const id = query.only('id', 'execution', 'event', 'of', 'name', 'index', 'most').id();
  const most = query.number('most', 1, SHOWN_MAX.whole) ?? SHOWN_MAX.whole;
  const executionId = query.number('execution', 1);
  const eventId = query.number('event', 1);
  const of = query.text('of');
  if (eventId !== undefined && of === undefined) return eventValue(context, { id, executionId, eventId }, most);
  if (eventId === undefined && of === 'state') return publishedValue(context, id, query.name(), most);
  if (eventId === undefined && of === 'stream') return entryText(context, id, query, most);
  if (eventId !== undefined || (of !== 'output' && of !== 'error' && of !== 'customStatus')) {
    throw badRequest(
      'the parameter event must be the number of an event, ' +
        'or the parameter of must be output, error, customStatus, state or stream',
    );
  }
  const { client, presenter } = context;
  const status = await statusOf(client, id);
  const shown =
    of === 'error'
      ? presenter.error(status, most)
      : presenter.value(status[of], { instanceId: id, orchestration: status.name, kind: of }, most);
  if (shown === undefined) throw badRequest(`the instance has no ${of}`);
  return shown;
}

interface EventAddress {
  readonly id: string;
  /** `undefined` is the current execution. */
  readonly executionId: number | undefined;
  readonly eventId: number;
}

async function eventValue(
  { client, presenter }: RouteContext,
  { id, executionId, eventId }: EventAddress,
  most: number,
): Promise<ValueText> {
  const part = { from: eventId, limit: 1, ...(executionId === undefined ? {} : { executionId }) };
  const [event] = (await client.historyPage(id, part)).events;
  const shown = event && presenter.eventValue(event, id, most);
  if (shown === undefined) throw badRequest('the event does not exist, or has no value');
  return shown;
}

async function publishedValue(
  { client, presenter }: RouteContext,
  id: string,
  name: string,
  most: number,
): Promise<ValueText> {
  const status = await statusOf(client, id);
  const published = await client.getState(id, name);
  const shown = published === null ? undefined : presenter.published(published.value, name, status, most);
  if (shown === undefined) throw badRequest('the instance publishes no value of that name');
  return shown;
}
