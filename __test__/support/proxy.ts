// A proxy to a server. It can be blocked: data that is sent meanwhile arrives when the proxy is free again, however
// late. It can also be cut.

import { connect, createServer, type Server, type Socket } from 'node:net';

import { type Deferred, deferred } from './async.ts';

/** The beginning of a connection that asks a Postgres server to cancel a statement. */
const CANCEL = Buffer.from([0, 0, 0, 16, 4, 210, 22, 46]);

/** A message at which a connection breaks off. */
interface Break {
  readonly bytes: string;
  readonly when: 'before' | 'after';
  readonly came: Deferred<void>;
}

export class Proxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** The bytes that block the proxy when they arrive. */
  #awaited: { readonly bytes: string; readonly came: Deferred<void> } | undefined;
  /** The bytes whose connection breaks off when they arrive. */
  #fatal: Break | undefined;
  /** Data that clients have sent since the proxy was blocked, with its destination. */
  #held: [Socket, Buffer][] | undefined;
  /** Data of each client that connected since the recording began. */
  #recorded: Buffer[][] | undefined;
  /** True if requests to cancel a statement do not reach the server. */
  losesCancels = false;

  private constructor(host: string, port: number) {
    this.#server = createServer((client) => {
      const server = connect(port, host);
      for (const [socket, other] of [
        [client, server],
        [server, client],
      ] as const) {
        this.#sockets.add(socket);
        socket.on('close', () => other.destroy()).on('error', () => other.destroy());
      }
      const sent: Buffer[] = [];
      this.#recorded?.push(sent);
      const isRecorded = this.#recorded !== undefined;
      client.on('data', (data: Buffer) => {
        if (isRecorded) sent.push(data);
        if (this.#awaited !== undefined && data.includes(this.#awaited.bytes)) {
          this.block();
          this.#awaited.came.resolve();
          this.#awaited = undefined;
        }
        if (this.#fatal !== undefined && data.includes(this.#fatal.bytes)) {
          this.#breakOff(client, server, data, this.#fatal);
          this.#fatal = undefined;
        } else if (this.losesCancels && data.subarray(0, CANCEL.length).equals(CANCEL)) client.destroy();
        else if (this.#held === undefined) server.write(data);
        else this.#held.push([server, data]);
      });
      server.pipe(client);
    });
  }

  /** Opens a proxy to the server of a URL. Returns the proxy and its URL. */
  static async to(target: string): Promise<{ proxy: Proxy; url: string }> {
    const url = new URL(target);
    const proxy = new Proxy(url.hostname, Number(url.port || 5432));
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    const { port } = proxy.#server.address() as { port: number };
    url.host = `127.0.0.1:${port}`;
    // The proxy reads the data to find the awaited bytes, so it must not be encrypted.
    url.searchParams.set('sslmode', 'disable');
    return { proxy, url: url.href };
  }

  /**
   * Records the data of clients that connect from now on. The returned function returns the data that each of them has
   * sent by then.
   */
  record(): () => Buffer[] {
    const recorded: Buffer[][] = [];
    this.#recorded = recorded;
    return () => recorded.map((sent) => Buffer.concat(sent));
  }

  /** Blocks the proxy: no more data arrives. */
  block(): void {
    this.#held ??= [];
  }

  /** Blocks the proxy at the first message that contains these bytes. Resolves when that message was sent. */
  blockAt(bytes: string): Promise<void> {
    const came = deferred();
    this.#awaited = { bytes, came };
    return came.promise;
  }

  /**
   * Breaks a connection off at the first message that contains these bytes: before the server gets the message, or
   * after it has answered, so that only its answer is lost. Resolves when it is done.
   */
  breakAt(bytes: string, when: 'before' | 'after'): Promise<void> {
    const came = deferred();
    this.#fatal = { bytes, when, came };
    return came.promise;
  }

  #breakOff(client: Socket, server: Socket, data: Buffer, { when, came }: Break): void {
    if (when === 'before') {
      client.destroy();
      came.resolve();
      return;
    }
    server.unpipe(client);
    server.once('data', () => {
      client.destroy();
      came.resolve();
    });
    server.resume();
    server.write(data);
  }

  /** True if the proxy holds data that can still arrive. */
  get holds(): boolean {
    return (this.#held ?? []).some(([server]) => server.writable);
  }

  /** Frees the proxy. The data that it holds arrives, unless its sender has gone. */
  free(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const [server, data] of held) server.write(data);
  }

  /** Breaks all connections off, at both ends. A server in the middle of a statement does not notice. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
