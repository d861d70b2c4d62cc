// The streams of an instance, and the last entries of one of them.

import type { Client } from '../client/client.ts';
import type { StreamEntry, StreamReset } from '../client/streams.ts';
import type { EntriesAnswer, EntryRow, StreamsAnswer, ValueText } from './answers.ts';
import type { Query } from './query.ts';
import { badRequest } from './refusal.ts';
import { found, type RouteContext, statusOf } from './route-context.ts';

/** Most entries of an answer. */
const ENTRIES_MAX = 50;

export async function streams({ client, presenter }: RouteContext, query: Query): Promise<StreamsAnswer> {
  const id = query.only('id').id();
  return presenter.streams(found(id, await client.listStreams(id)));
}

/** Returns the last entries of a stream, from an index on. Each value is cut before the next one is read. */
export async function entries({ client, presenter }: RouteContext, query: Query): Promise<EntriesAnswer> {
  const id = query.only('id', 'name', 'from').id();
  const name = query.name();
  const asked = query.number('from', 0) ?? 0;
  const status = await statusOf(client, id);
  const stream = found(id, await client.listStreams(id)).find((one) => one.name === name);
  if (stream === undefined) throw badRequest('the instance has no stream of that name');
  const { next } = stream;
  const first = Math.max(stream.first, next - ENTRIES_MAX);
  const items: EntryRow[] = [];
  for await (const one of part(client, id, name, Math.max(asked, first), next))
    items.push(presenter.entry(one, name, status));
  return { items, first, next };
}

/** Yields the entries from one index to another, as far as they are left, and the markers before them. */
async function* part(
  client: Client,
  id: string,
  name: string,
  from: number,
  to: number,
): AsyncGenerator<StreamEntry | StreamReset, void> {
  if (from >= to) return;
  for await (const one of client.readStream(id, name, { from, live: false })) {
    // Entries may have come, or gone, since their number was read.
    if (one.index >= to) return;
    yield one;
    if (!one.reset && one.index === to - 1) return;
  }
}

/** Returns the value of an entry, up to `most` characters. */
export async function entryText(
  { client, presenter }: RouteContext,
  id: string,
  query: Query,
  most: number,
): Promise<ValueText> {
  const name = query.name();
  const index = query.number('index', 0);
  if (index === undefined) throw badRequest('the parameter index must be the number of an entry');
  const status = await statusOf(client, id);
  for await (const one of part(client, id, name, index, index + 1)) {
    const shown = one.reset ? undefined : presenter.entryValue(one, name, status, most);
    if (shown !== undefined) return shown;
  }
  throw badRequest('the stream has no such entry');
}
