// `perdure datasource`

import type { Cli } from '../cli.ts';
import { usageError } from '../exit.ts';
import { printable } from '../text.ts';

const ACTIONS = ['install', 'sql'] as const;

export function datasource(cli: Cli): void {
  cli
    .command('datasource', 'make the tables of datasources, or print the statements that make them')
    .argument('<action>', "'install' makes the tables; 'sql' prints the statements and changes nothing")
    .argument('<module...>', 'modules that export datasources')
    .action(
      cli.action(async ({ terminal }, action: string, modules: string[]) => {
        if (!(ACTIONS as readonly string[]).includes(action))
          throw usageError(`the action must be 'install' or 'sql', not '${printable(action)}'`);
        const { datasourcesOf } = await import('../modules.ts');
        for (const { name, datasource: found } of await datasourcesOf(modules)) {
          if (action === 'install') await found.install();
          if (terminal.isJson) terminal.data({ name, statements: found.installStatements() });
          else if (action === 'install') terminal.line(`the table of ${printable(name)} is installed`);
          else for (const statement of found.installStatements()) terminal.line(`${statement};`);
        }
      }),
    );
}
