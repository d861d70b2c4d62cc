// A way to a server that can be blocked: what is sent then arrives when it is free again, however late. And one that can be cut.

import { connect, createServer, type Server, type Socket } from 'node:net';

import { type Deferred, deferred } from './async.ts';

/** How a connection begins that asks a Postgres server to cancel a statement. */
const CANCEL = Buffer.from([0, 0, 0, 16, 4, 210, 22, 46]);

export class Proxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** What blocks the way when it comes. */
  #awaited: { readonly bytes: string; readonly came: Deferred<void> } | undefined;
  /** What clients have sent since the way was blocked, and where it is to go. */
  #held: [Socket, Buffer][] | undefined;
  /** What each client has sent, from the moment on that somebody wants to know. */
  #recorded: Buffer[][] | undefined;
  /** What asks the server to cancel a statement does not arrive. */
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
        if (this.losesCancels && data.subarray(0, CANCEL.length).equals(CANCEL)) client.destroy();
        else if (this.#held === undefined) server.write(data);
        else this.#held.push([server, data]);
      });
      server.pipe(client);
    });
  }

  /** A way to the server of a URL, and the URL of the way. */
  static async to(target: string): Promise<{ proxy: Proxy; url: string }> {
    const url = new URL(target);
    const proxy = new Proxy(url.hostname, Number(url.port || 5432));
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    const { port } = proxy.#server.address() as { port: number };
    url.host = `127.0.0.1:${port}`;
    // What is held is to be read.
    url.searchParams.set('sslmode', 'disable');
    return { proxy, url: url.href };
  }

  /** Note what clients send that connect from now on: the function that is given returns all that each of them has sent by then. */
  record(): () => Buffer[] {
    const recorded: Buffer[][] = [];
    this.#recorded = recorded;
    return () => recorded.map((sent) => Buffer.concat(sent));
  }

  /** Nothing arrives any more. */
  block(): void {
    this.#held ??= [];
  }

  /** Nothing arrives any more from the first message on that holds these bytes. Resolves when that was sent. */
  blockAt(bytes: string): Promise<void> {
    const came = deferred();
    this.#awaited = { bytes, came };
    return came.promise;
  }

  /** Whether something is held that can still arrive. */
  get holds(): boolean {
    return (this.#held ?? []).some(([server]) => server.writable);
  }

  /** What was held arrives, unless who sent it has gone. */
  free(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const [server, data] of held) server.write(data);
  }

  /** Break all connections off, at both ends. A server in the middle of something does not notice. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
