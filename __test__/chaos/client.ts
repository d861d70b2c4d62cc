// The client process of chaos. It starts programs and carries out their actions until it is told that it is enough. It
// may be killed like any worker. The next client continues where the log ends.

import { Client, type Provider } from 'perdure';

import { groupBy } from '../support/violations.ts';
import { openLog, openStore, pause, say } from '../support/worker-parts.mjs';
import { type ClientEntry, readClientLog } from './client-log.ts';
import { instancesOf } from './model.ts';
import { type Action, type Root, rootOf } from './programs.ts';
import type { ClientOptions, ClientTold } from './talk.ts';

const { store, log, seed, strands, note } = JSON.parse(process.argv[2] ?? '') as ClientOptions;

/** Pause after an error of a call that does not wait for its store by itself, ms. */
const AGAIN_MS = 50;

/** Time that one call waits for an end before the client asks again. */
const PATIENCE = '10s';

class Player {
  readonly #client: Client;
  readonly #write: (entry: ClientEntry) => void;
  /** Log entries of each program from earlier clients. */
  readonly #former: ReadonlyMap<number, readonly ClientEntry[]>;
  readonly #others: Promise<void>[] = [];
  #next: number;
  #isEnough = false;

  constructor(provider: Provider) {
    this.#client = new Client(provider);
    this.#former = groupBy(readClientLog(log), (entry) => entry.program);
    this.#write = openLog(log);
    this.#next = Math.max(-1, ...this.#former.keys()) + 1;
  }

  enough(): void {
    this.#isEnough = true;
  }

  another(): void {
    this.#others.push(this.#one(this.#next++));
  }

  /**
   * Plays programs one after the other in each of several strands. Programs that earlier clients have begun come first.
   */
  async play(): Promise<void> {
    const begun = [...this.#former.keys()].filter((program) => !this.#isDone(program, 'end'));
    const strand = async () => {
      for (;;) {
        const program = begun.shift() ?? (this.#isEnough ? undefined : this.#next++);
        if (program === undefined) return;
        await this.#one(program);
        say({ type: 'over', program });
      }
    };
    await Promise.all(Array.from({ length: strands }, strand));
    await Promise.all(this.#others);
  }

  async #one(program: number): Promise<void> {
    const root = rootOf(seed, program);
    await this.#insist(program, 'start', () => this.#start(root));
    for (const [i, action] of root.actions.entries()) {
      if (this.#isDone(program, i)) continue;
      await pause(action.pauseMs);
      await this.#insist(program, i, (attempt) => this.#act(root.id, action, attempt));
    }
    await this.#insist(program, 'end', async () => {
      const { status } = await this.#client.waitForOrchestration(root.id, PATIENCE);
      // The instances that the program started without waiting for them exist by now.
      for (const { id } of instancesOf(root)) await this.#client.waitForOrchestration(id, PATIENCE);
      return status;
    });
  }

  /** Starts the program several times at once: only one instance may come of it (S17). */
  async #start({ id, starts, segments, ending, isNoted, queue }: Root): Promise<void> {
    const input = { program: { segments, ending, isNoted }, note };
    const options = { onConflict: 'return', ...queue } as const;
    const start = () => this.#client.startOrchestration(id, 'program', input, options);
    await Promise.all(Array.from({ length: starts }, start));
  }

  async #act(id: string, action: Action, attempt: number): Promise<void> {
    switch (action.do) {
      case 'send': {
        const send = action.mailbox === 'queue' ? this.#client.enqueueEvent : this.#client.raiseEvent;
        return send.call(this.#client, id, action.name, [action.seq, attempt]);
      }
      case 'cancel':
        return this.#client.cancelInstance(id);
      case 'terminate':
        return this.#client.terminateInstance(id);
    }
  }

  /** Repeats the call until its outcome is known. A retryable error leaves the outcome unknown. */
  async #insist(
    program: number,
    action: ClientEntry['action'],
    call: (attempt: number) => Promise<unknown>,
  ): Promise<void> {
    if (this.#isDone(program, action)) return;
    const before =
      this.#former.get(program)?.filter((entry) => entry.action === action && entry.phase === 'asked').length ?? 0;
    for (let attempt = before + 1; ; attempt += 1) {
      const write = (phase: ClientEntry['phase'], what?: unknown) =>
        this.#write({
          program,
          action,
          attempt,
          phase,
          at: Date.now(),
          ...(what === undefined ? {} : { what: String(what) }),
        });
      write('asked');
      try {
        return write('acknowledged', await call(attempt));
      } catch (error) {
        const { code, retryable, message } = error as { code?: string; retryable?: boolean; message: string };
        // The reader of stderr searches it for texts that must not appear there.
        console.error(message);
        // A wait that times out is repeated. The observer decides whether that happens too often.
        const isUnknown = retryable === true || (action === 'end' && code === 'TIMEOUT');
        if (!isUnknown) return write('refused', code ?? message);
        write('unknown', code);
        await pause(AGAIN_MS);
      }
    }
  }

  #isDone(program: number, action: ClientEntry['action']): boolean {
    return (
      this.#former
        .get(program)
        ?.some((entry) => entry.action === action && (entry.phase === 'acknowledged' || entry.phase === 'refused')) ??
      false
    );
  }
}

const provider = await openStore(store);
const player = new Player(provider);
process.on('message', ({ type }: ClientTold) => player[type]());
process.on('disconnect', () => process.exit());
say({ type: 'ready' });
await player.play();
await provider.close();
say({ type: 'done' });
process.disconnect();
