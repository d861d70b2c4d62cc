// What commands are made with: the program that they belong to, and how their work is run.

import type { Command } from 'commander';

import type { Client } from '../client/client.ts';
import type { StoreOptions } from './store.ts';
import type { Terminal } from './terminal.ts';

/** Flags that each command has. */
export interface GlobalFlags extends StoreOptions {
  readonly json?: true;
}

/** What the work of a command has. */
export interface On {
  readonly terminal: Terminal;
  readonly flags: GlobalFlags;
}

/** What the work of a command has that needs the store. */
export interface OnStore extends On {
  readonly client: Client;
}

/** The work of a command: its arguments, then its flags. */
type Work<T, A extends unknown[]> = (on: T, ...args: A) => Promise<void>;

/** Called by commander: the arguments, the flags, and the command itself. */
type Action = (...args: any[]) => Promise<void>;

export class Cli {
  private readonly program: Command;
  private readonly terminal: (isJson: boolean) => Terminal;

  constructor(program: Command, terminal: (isJson: boolean) => Terminal) {
    this.program = program;
    this.terminal = terminal;
  }

  command(usage: string, description: string): Command {
    return this.program.command(usage).description(description);
  }

  /** Work that opens the store itself, or needs none. */
  on<A extends unknown[]>(work: Work<On, A>): Action {
    return (...args) => {
      const flags = (args.pop() as Command).optsWithGlobals<GlobalFlags>();
      return work({ terminal: this.terminal(flags.json === true), flags }, ...(args as A));
    };
  }

  /** Work on the store, which is opened for it. What a command does not need is not loaded: help comes at once. */
  onStore<A extends unknown[]>(work: Work<OnStore, A>): Action {
    return this.on(async (on, ...args: A) => {
      const { withStore } = await import('./store.ts');
      await withStore(on.flags, (client) => work({ ...on, client }, ...args));
    });
  }
}
