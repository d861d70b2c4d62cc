// `perdure query`

import { DATA, valueOf } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import { refusal } from '../exit.ts';

export function query(cli: Cli): void {
  cli
    .command('query', 'ask the code of an instance, and print its answer')
    .argument('<id>', 'id of the instance')
    .argument('<query>', 'name of the query')
    .argument('[input]', DATA)
    .option(
      '-m, --module <path...>',
      'modules that export the definition of its orchestration, whose code answers here; without them a worker answers',
    )
    .action(
      cli.action(
        async (
          { terminal, flags },
          id: string,
          name: string,
          input: string | undefined,
          { module: modules = [] }: { readonly module?: string[] },
        ) => {
          const { withStore } = await import('../store.ts');
          const { orchestrationsOf } = await import('../modules.ts');
          const { Runtime } = await import('../../runtime/runtime.ts');
          const definitions = await orchestrationsOf(modules);
          const answer = await withStore(flags, async (client, provider) => {
            // It is not started: it answers queries by its code, and takes no work.
            new Runtime(provider, { logLevel: 'silent' }).register(...definitions);
            return client.query<unknown, unknown>(id, name, await valueOf(input)).catch(refusal);
          });
          terminal.answer(answer);
        },
      ),
    );
}
