// Event streams (SSE) of the whole store, or of one instance. A stream ends when its listener disconnects. Their number
// is limited.

import { Client } from '../client/client.ts';
import type { HistoryPage } from '../client/history.ts';
import { hasEnded, type InstanceStatus } from '../client/instance-status.ts';
import type { Query } from './query.ts';
import { shownPage } from './reads.ts';
import { answerOf, badRequest, Refusal, refusalOf } from './refusal.ts';
import { descriptionOf, found, type RouteContext } from './route-context.ts';
import type { Sampler } from './sampler.ts';

/** Most streams of one handler that are open at the same time. */
const STREAMS_MAX = 64;

/** Interval of reading an instance, ms. A change of its custom status is sent at once. */
const LOOK_MS = 1_000;

/** Events of the first page. It is small, so that the beginning of a long history arrives at once. */
const FIRST = 200;

/** Interval of comments that keep a proxy from closing an idle stream, ms. */
const HEARTBEAT_MS = 15_000;

/** Most bytes that are buffered for a slow listener. Above that its stream ends, and the listener may reconnect. */
const WAITING_MAX = 4 * 1024 * 1024;

export class LiveStreams {
  readonly #context: RouteContext;
  readonly #sampler: Sampler;
  #open = 0;

  constructor(context: RouteContext, sampler: Sampler) {
    this.#context = context;
    this.#sampler = sampler;
  }

  /** @throws Refusal when the query is wrong, or too many streams are open */
  open(query: Query, signal: AbortSignal): ReadableStream<Uint8Array> {
    const run = this.#runOf(query);
    if (this.#open >= STREAMS_MAX)
      throw new Refusal(429, 'STREAMS', `too many live streams: at most ${STREAMS_MAX} may be open`, {
        'retry-after': '5',
      });
    this.#open += 1;
    const ending = new AbortController();
    const end = (): void => ending.abort();
    if (signal.aborted) end();
    signal.addEventListener('abort', end, { once: true });
    let heartbeat: NodeJS.Timeout;
    let stream: EventStream;
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          stream = new EventStream(controller, end);
          stream.comment();
          const to = stream;
          heartbeat = setInterval(() => to.comment(), HEARTBEAT_MS);
          ending.signal.addEventListener('abort', () => to.taken(), { once: true });
          void run(to, ending.signal)
            .catch((error: unknown) => {
              // The listener has disconnected.
              if (ending.signal.aborted && error === ending.signal.reason) return;
              const refusal =
                refusalOf(error) ??
                new Refusal(500, 'INTERNAL', 'an internal error ended the stream: see the log of the server');
              this.#context.report(refusal, error);
              to.send('failed', answerOf(refusal));
            })
            .finally(() => {
              end();
              clearInterval(heartbeat);
              signal.removeEventListener('abort', end);
              this.#open -= 1;
              to.close();
            });
        },
        pull: () => stream.taken(),
        cancel: end,
      },
      { highWaterMark: WAITING_MAX, size: (chunk) => chunk.byteLength },
    );
  }

  #runOf(query: Query): (stream: EventStream, signal: AbortSignal) => Promise<void> {
    query.only('id', 'execution', 'from');
    if (query.text('id') === undefined) {
      if (query.text('from') !== undefined) throw badRequest('the parameter from needs the parameter id');
      return (stream, signal) => this.#everything(stream, signal);
    }
    const part = query.part();
    return (stream, signal) => this.#instance(part, stream, signal);
  }

  #everything(stream: EventStream, signal: AbortSignal): Promise<void> {
    stream.send('past', this.#sampler.past);
    return new Promise((resolve, reject) => {
      const stop = this.#sampler.watch({ sample: (sample) => stream.send('sample', sample), failed });
      function failed(error: unknown): void {
        stop();
        reject(error);
      }
      signal.addEventListener('abort', () => {
        stop();
        resolve();
      });
      if (signal.aborted) stop();
    });
  }

  /**
   * Sends each observed state of the instance, its waits, values and streams, and the new events of one of its
   * executions.
   */
  async #instance(
    { id, from, ...part }: ReturnType<Query['part']>,
    stream: EventStream,
    signal: AbortSignal,
  ): Promise<void> {
    let next = from;
    let seen = '';
    let sent = '';
    let died = '';
    let execution = part.executionId;
    const sendState = this.#stateSender(id, stream);
    const sendStreams = this.#streamsSender(id, stream);
    while (!signal.aborted) {
      const { client, presenter } = this.#context;
      const description = await descriptionOf(client, id);
      const instance = presenter.instance(description.status);
      const { executionId = instance.executionId } = part;
      // Without an execution number, the stream follows the instance into its next execution.
      if (execution !== undefined && execution !== executionId) next = 1;
      execution = executionId;
      const mark = [instance.executionId, instance.status, instance.updatedAtMs, instance.customStatusVersion].join();
      const isNew = mark !== seen;
      // Reading a long history takes a moment, so the instance is sent first.
      if (isNew) stream.send('instance', instance);
      // The waits also change without a change of the instance: an attempt begins, or sends a heartbeat.
      const waits = presenter.waits(description);
      const text = JSON.stringify(waits);
      if (text !== sent) stream.send('waits', waits);
      await sendState(description.status);
      await sendStreams(description.status);
      sent = text;
      seen = mark;
      if (isNew) {
        const takeovers = presenter.takeovers(await client.takeovers(id));
        const deaths = JSON.stringify(takeovers);
        if (takeovers.items.length > 0 && deaths !== died) stream.send('takeovers', takeovers);
        died = deaths;
        const read = (limit: number): Promise<HistoryPage> => {
          const page = client.historyPage(id, { executionId, from: next, limit });
          // The page may fail after the listener has gone. That rejection is handled here.
          page.catch(() => {});
          return page;
        };
        let ahead: Promise<HistoryPage> | undefined = read(next === from ? FIRST : part.limit);
        while (ahead !== undefined && !signal.aborted) {
          const page: HistoryPage = await ahead;
          next += page.events.length;
          // The store reads the next page while this one is written.
          ahead = page.next === null || page.events.length === 0 ? undefined : read(part.limit);
          if (page.events.length > 0) stream.send('history', shownPage(this.#context, id, page));
          await stream.room(signal);
        }
      }
      if (hasEnded(instance.status)) return stream.send('end', {});
      if (!signal.aborted)
        await client.waitForStatusChange(id, instance.customStatusVersion, { timeout: LOOK_MS, signal });
    }
  }

  /** Returns a function that sends the published values of an instance, if they have changed since its last call. */
  #stateSender(id: string, stream: EventStream): (instance: InstanceStatus) => Promise<void> {
    const { client, presenter } = this.#context;
    let sent = '';
    return async (instance) => {
      // The values may be large, so they are read only if their version is another one. A restart begins it anew.
      const mark = [instance.createdAt.getTime(), await Client.stateVersion(client, id)].join();
      if (mark === sent) return;
      stream.send('state', presenter.state(found(id, await client.getState(id)), instance));
      sent = mark;
    };
  }

  /** Returns a function that sends the list of an instance's streams, if it has changed since its last call. */
  #streamsSender(id: string, stream: EventStream): (instance: InstanceStatus) => Promise<void> {
    const { client, presenter } = this.#context;
    let sent = '';
    return async ({ createdAt }) => {
      const streams = presenter.streams(found(id, await client.listStreams(id)));
      const mark = `${createdAt.getTime()} ${JSON.stringify(streams)}`;
      if (mark !== sent) stream.send('streams', streams);
      sent = mark;
    };
  }
}

/** The output of a stream: events whose data is one line of JSON. */
class EventStream {
  readonly #controller: ReadableStreamDefaultController<Uint8Array>;
  readonly #end: () => void;
  readonly #encoder = new TextEncoder();
  #isOver = false;
  #taken = (): void => {};

  constructor(controller: ReadableStreamDefaultController<Uint8Array>, end: () => void) {
    this.#controller = controller;
    this.#end = end;
  }

  send(event: string, data: unknown): void {
    this.#write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  comment(): void {
    this.#write(':\n\n');
  }

  /** Waits until more than half of the buffer is free, or `signal` is aborted. */
  async room(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && (this.#controller.desiredSize ?? 0) <= WAITING_MAX / 2) {
      await new Promise<void>((resolve) => {
        this.#taken = resolve;
      });
    }
  }

  /** Wakes {@link room}: the listener has read some data, or has disconnected. */
  taken(): void {
    this.#taken();
  }

  close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    try {
      this.#controller.close();
    } catch {
      // The listener has disconnected.
    }
  }

  #write(text: string): void {
    if (this.#isOver) return;
    try {
      this.#controller.enqueue(this.#encoder.encode(text));
    } catch {
      // The listener has disconnected.
      this.#isOver = true;
      this.#end();
      return;
    }
    if ((this.#controller.desiredSize ?? 0) <= 0) {
      this.close();
      this.#end();
    }
  }
}
