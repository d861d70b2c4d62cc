// Worker threads of a runtime: each has a lane, and one that ends is replaced.

import { performance } from 'node:perf_hooks';
import type { Worker } from 'node:worker_threads';

import type { NativeRuntime } from '../binding/native-classes.ts';
import { RuntimeStateError } from '../errors/errors.ts';
import type { TraceFields, TraceLevel } from '../logging/fields.ts';
import type { MeasuredThread } from './busy-shares.ts';
import type { HostOptions } from './host.ts';

/** The data that a thread is started with. */
export interface ThreadData {
  /** Numbers of the runtime, of its store and of the thread's lane. */
  readonly runtime: number;
  readonly store: number;
  readonly lane: number;
  readonly workerId: string;
  readonly modules: readonly string[];
  readonly codec: 'none' | 'sync' | 'async';
  /** Names of the classes that the provider has registered. */
  readonly types: readonly string[];
  readonly isTraced: boolean;
  readonly options: HostOptions;
}

/** A message from a thread. */
export type ThreadMessage =
  | { readonly type: 'ready' }
  | { readonly type: 'line'; readonly level: TraceLevel; readonly message: string; readonly fields: TraceFields }
  | { readonly type: 'report'; readonly error: unknown; readonly what: string }
  | { readonly type: 'warn'; readonly what: string; readonly fields: TraceFields; readonly error: unknown };

/** Receives the messages of threads. */
export interface ThreadListener {
  line(level: TraceLevel, message: string, fields: TraceFields): void;
  report(error: unknown, what: string): void;
  warn(what: string, fields: TraceFields, error: unknown): void;
}

/** Time that a thread has to end when it is told to, ms; after that it is terminated. */
const STOP_MAX_MS = 1_000;
/**
 * Delay from the end of a thread to the start of the next one, ms. The first restart is immediate; a thread that ends
 * again and again is restarted after delays from `second` to `last`.
 */
const RESTART_MS = { first: 0, second: 100, last: 10_000 };
/** Lifetime after which the restart of a thread counts as the first one again, ms. */
const LIVED_MS = 10_000;

export class Threads {
  private readonly native: NativeRuntime;
  private readonly data: Omit<ThreadData, 'lane'>;
  private readonly listener: ThreadListener;
  private readonly workers = new Map<number, Worker>();
  private readonly restarts = new Set<NodeJS.Timeout>();
  private isStopping = false;

  constructor(native: NativeRuntime, data: Omit<ThreadData, 'lane'>, listener: ThreadListener) {
    this.native = native;
    this.data = data;
    this.listener = listener;
  }

  /**
   * Starts this many threads. Resolves when all of them take work.
   *
   * @throws RuntimeStateError when one ends before that
   */
  async start(count: number): Promise<void> {
    const lanes = Array.from({ length: count }, (_, i) => i + 1);
    await Promise.all(
      lanes.map(
        (lane) => new Promise<void>((resolve, reject) => this.run(lane, RESTART_MS.first, { resolve, reject })),
      ),
    );
  }

  /** Ends all threads. Their work is over. */
  async stop(): Promise<void> {
    this.isStopping = true;
    for (const timer of this.restarts) clearTimeout(timer);
    await Promise.all(
      [...this.workers.values()].map(async (worker) => {
        const ended = new Promise((resolve) => worker.once('exit', resolve));
        worker.postMessage('stop');
        const timer = setTimeout(() => void worker.terminate(), STOP_MAX_MS);
        await ended;
        clearTimeout(timer);
      }),
    );
  }

  /** Returns the measurements of the thread of a lane, if that thread is there. */
  measured(lane: number): MeasuredThread | undefined {
    return this.workers.get(lane)?.performance;
  }

  /** `start` is resolved when the thread takes work, and rejected when the thread ends before that. */
  private run(lane: number, delayMs: number, start?: { resolve(): void; reject(error: Error): void }): void {
    // Not an import: most programs have no worker threads of their own.
    const { Worker } = process.getBuiltinModule('node:worker_threads');
    const worker = new Worker(new URL('../runtime/worker-thread.js', import.meta.url), {
      workerData: { ...this.data, lane },
      name: `perdure ${lane}`,
    });
    const began = performance.now();
    let cause: unknown;
    let isReady = false;
    this.workers.set(lane, worker);
    worker.on('message', (message: ThreadMessage) => {
      if (message.type !== 'ready') return this.hear(message);
      isReady = true;
      start?.resolve();
    });
    worker.on('error', (error) => {
      cause = error;
    });
    worker.on('exit', (code) => {
      this.workers.delete(lane);
      this.native.lose(lane);
      if (this.isStopping) return;
      const why = cause instanceof Error ? cause.message : `exit code ${code}`;
      const error = new RuntimeStateError(`worker thread ${lane} has ended: ${why}`, { cause });
      if (start !== undefined && !isReady) return start.reject(error);
      this.listener.report(error, 'a worker thread has ended and is replaced');
      this.restart(lane, performance.now() - began > LIVED_MS ? RESTART_MS.first : delayMs);
    });
  }

  private restart(lane: number, delayMs: number): void {
    const nextMs = Math.min(Math.max(2 * delayMs, RESTART_MS.second), RESTART_MS.last);
    const timer = setTimeout(() => {
      this.restarts.delete(timer);
      try {
        this.run(lane, nextMs);
      } catch (error) {
        this.listener.report(error, 'a worker thread could not be started; the start is retried');
        this.restart(lane, nextMs);
      }
    }, delayMs);
    this.restarts.add(timer);
  }

  private hear(message: Exclude<ThreadMessage, { type: 'ready' }>): void {
    switch (message.type) {
      case 'line':
        this.listener.line(message.level, message.message, message.fields);
        return;
      case 'report':
        this.listener.report(message.error, message.what);
        return;
      case 'warn':
        this.listener.warn(message.what, message.fields, message.error);
        return;
      default:
        message satisfies never;
    }
  }
}
