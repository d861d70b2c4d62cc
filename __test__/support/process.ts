// A process of a test's own: plain Node, started, commanded and killed from here.

import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** The end of a process. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export const root = fileURLToPath(new URL('../..', import.meta.url));

/** Runs a program and exchanges messages with it. Each message has a type. */
export class Process<Said extends { readonly type: string }, Told extends object> {
  /** Processes that have not ended. */
  static readonly running = new Set<{ kill(): Promise<void> }>();

  readonly name: string;
  readonly messages: Said[] = [];
  /** The text that it wrote to stderr. */
  stderr = '';
  readonly #child: ChildProcess;
  readonly #exit: Promise<Exit>;
  readonly #waiting = new Set<{ check: () => boolean; resolve: () => void; reject: (error: Error) => void }>();

  /** `command` is the command that runs Node: Node itself, or a program that runs it. */
  constructor(name: string, command: readonly string[]) {
    this.name = name;
    const [program = process.execPath, ...args] = command;
    this.#child = spawn(program, args, {
      cwd: root,
      stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    Process.running.add(this);
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
      this.#look();
    });
    this.#child.on('message', (message) => {
      this.messages.push(message as Said);
      this.#look();
    });
    this.#exit = new Promise((resolve, reject) => {
      this.#child.once('error', reject);
      this.#child.once('close', (code, signal) => {
        Process.running.delete(this);
        resolve({ code, signal });
        for (const { reject: fail } of this.#waiting)
          fail(new Error(`the process '${this.name}' ended (${code ?? signal}):\n${this.stderr}`));
        this.#waiting.clear();
      });
    });
  }

  /** Returns all its messages of one type so far. */
  all<T extends Said['type']>(type: T): Extract<Said, { type: T }>[] {
    return this.messages.filter((message) => message.type === type) as Extract<Said, { type: T }>[];
  }

  /** Resolves when it has sent a number of messages of a type. Rejects if it ends before. */
  said(type: Said['type'], times = 1): Promise<void> {
    return this.#when(() => this.all(type).length >= times);
  }

  /** Resolves when its stderr contains the text. Rejects if it ends before. */
  wrote(text: string): Promise<void> {
    return this.#when(() => this.stderr.includes(text));
  }

  tell(command: Told): void {
    this.#child.send(command);
  }

  /** Resolves when it has ended. */
  exited(): Promise<Exit> {
    return this.#exit;
  }

  /** Sends SIGKILL. Resolves when it has ended. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exit;
  }

  /** Sends SIGSTOP: the process stands still, and does not notice. */
  pause(): void {
    this.#child.kill('SIGSTOP');
  }

  /** Sends SIGCONT. */
  resume(): void {
    this.#child.kill('SIGCONT');
  }

  #when(check: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.add({ check, resolve, reject });
      this.#look();
    });
  }

  #look(): void {
    for (const waiting of this.#waiting) {
      if (!waiting.check()) continue;
      this.#waiting.delete(waiting);
      waiting.resolve();
    }
  }
}
