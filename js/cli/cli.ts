// Helpers for commands: they add a command to the program and run its work.

import type { Command } from 'commander';

import type { Client } from '../client/client.ts';
import type { StoreOptions } from './store.ts';
import type { Terminal } from './terminal.ts';

/** Flags that every command has. */
export interface GlobalFlags extends StoreOptions {
  readonly json?: true;
}

/** The environment of a command's work. */
export interface CommandContext {
  readonly terminal: Terminal;
  readonly flags: GlobalFlags;
}

/** The environment of a command's work on the store. */
export interface StoreCommandContext extends CommandContext {
  readonly client: Client;
}

/** The work of a command. Its parameters are the arguments, then the flags. */
type CommandHandler<T, A extends unknown[]> = (context: T, ...args: A) => Promise<void>;

/** The callback of commander: the arguments, the flags, and the command itself. */
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

  /** Returns the same helpers for the commands of a command. */
  of(command: Command): Cli {
    return new Cli(command, this.terminal);
  }

  /** Wraps work that opens the store itself, or needs none. */
  action<A extends unknown[]>(handle: CommandHandler<CommandContext, A>): Action {
    return (...args) => {
      const flags = (args.pop() as Command).optsWithGlobals<GlobalFlags>();
      return handle({ terminal: this.terminal(flags.json === true), flags }, ...(args as A));
    };
  }

  /**
   * Wraps work on the store: opens the store for it and closes it afterwards. Modules that a command does not need are
   * not loaded, so that help appears at once.
   */
  storeAction<A extends unknown[]>(handle: CommandHandler<StoreCommandContext, A>): Action {
    return this.action(async (context, ...args: A) => {
      const { withStore } = await import('./store.ts');
      await withStore(context.flags, (client) => handle({ ...context, client }, ...args));
    });
  }
}
