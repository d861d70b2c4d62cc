// A worker process: crash/worker.mjs, which runs the built package with plain Node, started, told and killed from here.

import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach } from 'vitest';

import type { StoreAddress } from './providers.ts';

/** What a worker is started with. */
export interface WorkerOptions {
  readonly store: StoreAddress;
  /** The effect log: see {@link Effect}. */
  readonly log: string;
  /** A name for this process in the effect log. */
  readonly name: string;
  /** Options of its runtime. */
  readonly runtime?: object;
  /** How long the activity `step` takes, ms. */
  readonly stepMs?: number;
  /** Whether the activity `hold` never returns here. */
  readonly holds?: boolean;
  /** Whether it runs what does its process harm. */
  readonly harms?: boolean;
}

/** What a worker says. */
export type WorkerMessage =
  | { type: 'ready' }
  /** An activity has begun. */
  | { type: 'step'; id: string }
  /** A start of an instance has been acknowledged. */
  | { type: 'acknowledged'; id: string }
  /** An instance that it was told to wait for has ended, as its own client sees it. */
  | { type: 'ended'; id: string; status: string; output: unknown }
  /** `shutdown()` was called and has not resolved yet. */
  | { type: 'stopping' };

/** What it is told. */
export type WorkerCommand =
  /** Start instances, one after the other. */
  | { type: 'start'; name: string; instances: readonly { id: string; input: unknown }[] }
  /** Say when they have ended. */
  | { type: 'wait'; ids: readonly string[] }
  | { type: 'shutdown'; timeout: string };

/** One line of the effect log: an attempt of an activity began or returned. Each is one write to the end of the file, padded. */
export interface Effect {
  readonly event: 'begin' | 'end';
  /** Name of the process. */
  readonly worker: string;
  readonly id: string;
  /** The step within the instance. */
  readonly step: number;
  readonly attempt: number;
  readonly key: string;
  /** ms since 1970, by the clock that the store's times come from. */
  readonly at: number;
}

export function readEffects(log: string): Effect[] {
  const lines = readFileSync(log, 'utf8').split('\n').filter(Boolean);
  return lines.map((line) => JSON.parse(line) as Effect);
}

const root = fileURLToPath(new URL('../..', import.meta.url));
const program = join(root, '__test__/crash/worker.mjs');
const running = new Set<Worker>();

afterEach(async () => {
  // None outlives its test, however that ended.
  await Promise.all([...running].map((worker) => worker.kill()));
});

export class Worker {
  readonly name: string;
  readonly messages: WorkerMessage[] = [];
  /** What it wrote to stderr. */
  stderr = '';
  readonly #child: ChildProcess;
  readonly #exit: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  readonly #waiting = new Set<{ check: () => boolean; resolve: () => void; reject: (error: Error) => void }>();

  private constructor(options: WorkerOptions) {
    this.name = options.name;
    this.#child = spawn(process.execPath, [program, JSON.stringify(options)], {
      cwd: root,
      stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    running.add(this);
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
      this.#look();
    });
    this.#child.on('message', (message) => {
      this.messages.push(message as WorkerMessage);
      this.#look();
    });
    this.#exit = new Promise((resolve, reject) => {
      this.#child.once('error', reject);
      this.#child.once('close', (code, signal) => {
        running.delete(this);
        resolve({ code, signal });
        for (const { reject: fail } of this.#waiting) fail(new Error(`the worker ended (${code ?? signal}):\n${this.stderr}`));
        this.#waiting.clear();
      });
    });
  }

  /** A process that may fail; see {@link start}. */
  static spawn(options: WorkerOptions): Worker {
    return new Worker(options);
  }

  /** A process whose runtime is started. */
  static async start(options: WorkerOptions): Promise<Worker> {
    const worker = new Worker(options);
    await worker.said('ready');
    return worker;
  }

  /** What it has said of one kind, so far. */
  all<T extends WorkerMessage['type']>(type: T): Extract<WorkerMessage, { type: T }>[] {
    return this.messages.filter((message) => message.type === type) as Extract<WorkerMessage, { type: T }>[];
  }

  /** Resolves when it has said something of a kind so many times; rejects when it ends before. */
  said(type: WorkerMessage['type'], times = 1): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.add({ check: () => this.all(type).length >= times, resolve, reject });
      this.#look();
    });
  }

  /** Resolves when this is in what it wrote to stderr; rejects when it ends before. */
  wrote(text: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.add({ check: () => this.stderr.includes(text), resolve, reject });
      this.#look();
    });
  }

  tell(command: WorkerCommand): void {
    this.#child.send(command);
  }

  /** Resolves when it has ended. */
  exited(): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
    return this.#exit;
  }

  /** SIGKILL; resolves when it is gone. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exit;
  }

  /** SIGSTOP: it stands still, and does not know. */
  pause(): void {
    this.#child.kill('SIGSTOP');
  }

  /** SIGCONT. */
  resume(): void {
    this.#child.kill('SIGCONT');
  }

  /** Shut it down in good order. */
  async stop(): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
    this.tell({ type: 'shutdown', timeout: '10s' });
    return this.#exit;
  }

  #look(): void {
    for (const waiting of this.#waiting) {
      if (!waiting.check()) continue;
      this.#waiting.delete(waiting);
      waiting.resolve();
    }
  }
}
