// Streams as server-sent events (WHATWG HTML, 9.2 "Server-sent events").

import { PerdureError } from '../errors/errors.ts';
import { checkOptions, type OptionTable, whole } from '../util/options.ts';
import { isInstance, isRecord, property, show } from '../util/show.ts';
import { type StreamEntry, StreamReader, type StreamReset } from './streams.ts';

/** Options of {@link eventStream}. */
export interface EventStreamOptions {
  /** Further headers of the response. */
  headers?: Record<string, string>;
  /**
   * Interval of comments that keep proxies from closing a quiet connection, ms. Default 15 000; 0: none.
   */
  keepAliveMs?: number;
}

const EVENT_STREAM_OPTIONS: OptionTable = { headers: texts, keepAliveMs: whole(0) };

function texts(value: unknown, path: string): void {
  const isHeaders = isRecord(value) && Object.values(value).every((text) => typeof text === 'string');
  if (!isHeaders) throw new TypeError(`${path} must be an object of strings, got ${show(value)}`);
}

/**
 * Returns a web-standard response that sends a stream to a browser as server-sent events, live.
 *
 * An entry is an event `message`: its data is JSON of the value (`null` for `undefined`), its id the index. A
 * {@link StreamReset} is an event `reset`, whose data is JSON of `{ from, activity, attempt }`. After the last entry
 * comes an event `end`, without which an `EventSource` would connect again. An error is an event `failure` with
 * `{ name, code, message }`.
 *
 * An `EventSource` that lost its connection connects again and names its last index in the header `Last-Event-ID`. If
 * `request` has that header, the reader begins after that index, and not where it was told to. The reading ends when
 * the response is cancelled, as servers do when the browser is gone.
 *
 * @param reader - a new result of {@link Client.readStream}
 * @param request - the request of the browser, or its headers
 * @throws TypeError when an argument is wrong
 *
 * @example
 * ```ts
 * app.get('/answers/:id', (c) => eventStream(client.readStream(c.req.param('id'), 'tokens'), c.req.raw));
 * // In the page:
 * // const source = new EventSource(`/answers/${id}`);
 * // source.onmessage = ({ data }) => parts.push(JSON.parse(data));
 * // source.addEventListener('end', () => source.close());
 * ```
 */
export function eventStream(
  reader: StreamReader<unknown>,
  request?: { readonly headers: Headers } | Headers,
  options?: EventStreamOptions,
): Response {
  if (!isInstance(reader, StreamReader))
    throw new TypeError(`eventStream: the reader must be a result of client.readStream, got ${show(reader)}`);
  const { headers, keepAliveMs = 15_000 } = checkOptions(options, EVENT_STREAM_OPTIONS, 'eventStream') ?? {};
  const last = lastEventId(request);
  if (last !== null) reader.startAt(last + 1);
  return new Response(body(reader, keepAliveMs), {
    headers: { ...headers, 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store' },
  });
}

/** Returns the index that the browser has seen last; `null`: it has seen none. */
function lastEventId(request: unknown): number | null {
  if (request === undefined) return null;
  // Servers have classes of their own for requests and headers.
  const headers = (property(request, 'headers') ?? request) as Headers;
  if (typeof property(headers, 'get') !== 'function')
    throw new TypeError(`eventStream: the request must be a Request or Headers, got ${show(request)}`);
  const id: unknown = headers.get('last-event-id');
  return typeof id === 'string' && /^\d{1,15}$/.test(id) ? Number(id) : null;
}

function body(reader: StreamReader<unknown>, keepAliveMs: number): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let timer: NodeJS.Timeout | undefined;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      // A connection that has not taken the last event is not quiet.
      const keepAlive = (): void => {
        if ((controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(': \n\n'));
      };
      if (keepAliveMs > 0) timer = setInterval(keepAlive, keepAliveMs).unref();
    },
    // Called when the browser has taken what was sent: a slow one holds a page and no more.
    async pull(controller) {
      const { text, isLast } = await nextEvent(reader);
      controller.enqueue(encoder.encode(text));
      if (!isLast) return;
      clearInterval(timer);
      controller.close();
    },
    async cancel() {
      clearInterval(timer);
      await reader.return();
    },
  });
}

async function nextEvent(reader: StreamReader<unknown>): Promise<{ readonly text: string; readonly isLast: boolean }> {
  try {
    const { done, value } = await reader.next();
    return done ? { text: event('end', {}), isLast: true } : { text: eventText(value), isLast: false };
  } catch (error) {
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    const code = error instanceof PerdureError ? error.code : null;
    return { text: event('failure', { name, code, message }), isLast: true };
  }
}

function eventText(item: StreamEntry | StreamReset): string {
  const { index, value, activity, attempt } = item;
  if (item.reset) return event('reset', { from: item.from, activity, attempt });
  // JSON has no line feed.
  return `id: ${index}\ndata: ${JSON.stringify(value) ?? 'null'}\n\n`;
}

function event(name: string, data: object): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}
