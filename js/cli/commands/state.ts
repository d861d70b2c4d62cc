// `perdure state`

import type { Client } from '../../client/client.ts';
import type { StateValue } from '../../client/state.ts';
import type { Cli } from '../cli.ts';
import { EXIT, Exit, usageError } from '../exit.ts';
import type { Column } from '../table.ts';
import type { Terminal } from '../terminal.ts';
import { printable, valueLine } from '../text.ts';
import { statusOf } from './show.ts';

interface Flags {
  readonly watch?: true;
}

/** A published value with its name. */
interface NamedValue extends StateValue {
  readonly name: string;
}

/** Longest text of a value in its line. */
const VALUE_MAX = 400;

const COLUMNS: readonly Column<NamedValue>[] = [
  { title: 'NAME', text: ({ name }) => printable(name), mayShrink: true },
  { title: 'VERSION', text: ({ version }) => String(version), align: 'right' },
  { title: 'VALUE', text: ({ value }) => valueLine(value, VALUE_MAX), mayShrink: true },
];

export function state(cli: Cli): void {
  cli
    .command('state', 'print the values that an instance publishes with ctx.state, or one of them')
    .argument('<id>', 'id of the instance')
    .argument('[name]', 'name of one value, which is printed in full')
    .option('-w, --watch', 'print the value and each change of it until the instance ends')
    .action(
      cli.storeAction(async ({ client, terminal }, id: string, name: string | undefined, flags: Flags) => {
        if (flags.watch === true && name === undefined)
          throw usageError('--watch follows one value: pass its name after the id');
        await statusOf(client, id);
        if (name === undefined) await printAll(client, terminal, id);
        else if (flags.watch === true) await follow(client, terminal, id, name);
        else await printOne(client, terminal, id, name);
      }),
    );
}

async function printAll(client: Client, terminal: Terminal, id: string): Promise<void> {
  const all = Array.from((await client.getState(id)) ?? [], ([name, value]): NamedValue => ({ name, ...value }));
  if (all.length === 0) terminal.note('no values are published');
  else if (!terminal.isJson) terminal.table(COLUMNS, all);
  else {
    for (const value of all) {
      terminal.data(value);
      await terminal.drain();
    }
  }
}

async function printOne(client: Client, terminal: Terminal, id: string, name: string): Promise<void> {
  const found = await client.getState(id, name);
  if (found === null)
    throw new Exit(EXIT.unwell, `instance '${printable(id)}' publishes no value '${printable(name)}'`);
  if (terminal.isJson) terminal.data({ name, ...found });
  else terminal.line(terminal.value(found.value));
}

async function follow(client: Client, terminal: Terminal, id: string, name: string): Promise<void> {
  for await (const change of client.watchState(id, name)) {
    const { value, version, isDeleted } = change;
    const text = isDeleted ? terminal.style('dim', 'deleted') : valueLine(value, VALUE_MAX);
    if (terminal.isJson) terminal.data({ name, ...change });
    else terminal.line(`${terminal.style('dim', `version ${version}`)}  ${text}`);
    await terminal.drain();
  }
}
