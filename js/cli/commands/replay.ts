// `perdure replay`

import type { Cli } from '../cli.ts';
import { EXIT, Exit, withoutPassword } from '../exit.ts';
import type { Column } from '../table.ts';
import { countText, printable, printableLines } from '../text.ts';

/** One execution that was replayed. */
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
  { title: 'FITS, AND IS', text: ({ outcome }) => outcome },
  { title: 'FILE', text: ({ file }) => printable(file), mayShrink: true },
];

export function replaying(cli: Cli): void {
  cli
    .command('replay', 'take the code of modules through exported histories: does it still fit? No store is needed, no activity runs')
    .argument('<path>', 'an export, or a folder of them')
    .argument('<module...>', 'modules that export the orchestrations, as defineOrchestration returned them')
    .option('--no-determinism', 'without the guard against clocks and randomness')
    .action(
      cli.on(async ({ terminal }, path: string, modules: string[], { determinism }: { determinism: boolean }) => {
        const { replayFiles } = await import('../../testing.ts');
        const { orchestrationsOf } = await import('../modules.ts');
        const definitions = await orchestrationsOf(modules);
        let files;
        try {
          files = await replayFiles(path, definitions, { determinism: determinism ? 'on' : 'off' });
        } catch (error) {
          const errors = error instanceof AggregateError ? (error.errors as Error[]) : [error as Error];
          for (const each of errors) {
            if (terminal.isJson) terminal.data({ error: { ...each, name: each.name, message: withoutPassword(each.message) } });
            else terminal.line(`${terminal.style('red', '✗')} ${printableLines(each.message)}\n`);
          }
          throw new Exit(EXIT.unwell, `${countText(errors.length, 'history does', 'histories do')} not fit`);
        }
        const rows = files.flatMap(({ file, instanceId, executions }) => executions.map((execution) => ({ file, instanceId, ...execution })));
        if (terminal.isJson) for (const row of rows) terminal.data(row);
        else terminal.table(COLUMNS, rows);
        terminal.note(`${countText(rows.length, 'history fits', 'histories fit')}`);
      }),
    );
}
