// `perdure replay`

import type { Cli } from '../cli.ts';
import { EXIT, Exit, errorData } from '../exit.ts';
import type { Column } from '../table.ts';
import { countText, printable, printableLines } from '../text.ts';

/** One replayed execution. */
interface Row {
  readonly file: string;
  readonly instanceId: string;
  readonly executionId: number;
  readonly name: string;
  readonly version: string;
  readonly events: number;
  readonly outcome: string;
}

const COLUMNS: readonly Column<Row>[] = [
  { title: 'INSTANCE', text: ({ instanceId }) => printable(instanceId), mayShrink: true },
  { title: 'ORCHESTRATION', text: ({ name, version }) => printable(`${name} ${version}`), mayShrink: true },
  { title: 'EVENTS', text: ({ events }) => `${events}`, align: 'right' },
  { title: 'OUTCOME', text: ({ outcome }) => outcome },
  { title: 'FILE', text: ({ file }) => printable(file), mayShrink: true },
];

export function replaying(cli: Cli): void {
  cli
    .command('replay', 'replay exported histories with the code of modules, without a store and without activities')
    .argument('<path>', 'an exported history, or a folder of exported histories')
    .argument('<module...>', 'modules that export the definitions that defineOrchestration returned')
    .option('--no-determinism', 'allow clocks and randomness: disable the determinism guard')
    .action(
      cli.action(async ({ terminal }, path: string, modules: string[], { determinism }: { determinism: boolean }) => {
        const { replayEach } = await import('../../testing/replays.ts');
        const { orchestrationsOf } = await import('../modules.ts');
        const rows: Row[] = [];
        const errors: Error[] = [];
        for await (const one of replayEach(path, await orchestrationsOf(modules), {
          determinism: determinism ? 'on' : 'off',
        })) {
          if (one instanceof Error) errors.push(one);
          else
            rows.push(
              ...one.executions.map((execution) => ({ file: one.file, instanceId: one.instanceId, ...execution })),
            );
          terminal.progress(`${countText(rows.length + errors.length, 'history', 'histories')}`);
        }
        if (terminal.isJson) for (const row of rows) terminal.data(row);
        else if (rows.length > 0) terminal.table(COLUMNS, rows);
        for (const error of errors) {
          if (terminal.isJson) terminal.data({ error: { ...error, ...errorData(error) } });
          else terminal.line(`${terminal.style('red', '✗')} ${printableLines(error.message)}\n`);
        }
        if (errors.length > 0)
          throw new Exit(EXIT.unwell, `${countText(errors.length, 'history does', 'histories do')} not match the code`);
        terminal.note(`${countText(rows.length, 'history matches', 'histories match')} the code`);
      }),
    );
}
