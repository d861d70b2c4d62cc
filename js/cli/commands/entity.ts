// `perdure entity`

import { nearest } from '../../util/options.ts';
import { DATA, spanArgument, valueOf } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import { refusal, usageError } from '../exit.ts';
import { withoutUndefined } from '../filter.ts';
import { printable } from '../text.ts';

interface Flags {
  readonly module: string[];
  readonly send?: boolean;
  readonly updateId?: string;
  readonly timeout?: number;
}

/** The methods of an entity, as a client has them. */
type Methods = Readonly<Record<string, (...args: unknown[]) => Promise<unknown>>>;

export function entity(cli: Cli): void {
  cli
    .command('entity', 'call an entity and print its answer')
    .argument('<entity>', 'name of the entity')
    .argument('<key>', 'key of the entity')
    .argument('<method>', 'name of a handler or of a read, or delete')
    .argument('[input]', DATA)
    .requiredOption('-m, --module <path...>', 'modules that export the definition of the entity')
    .option('--send', 'do not wait for the answer of the handler')
    .option('--update-id <id>', 'id of the call: calls with one id are one call (default: a new UUID)')
    .option('--timeout <duration>', 'wait at most this long for a handler (default: for ever)', spanArgument)
    .action(
      cli.action(
        async (
          { terminal, flags: store },
          name: string,
          key: string,
          method: string,
          data: string | undefined,
          flags: Flags,
        ) => {
          const { withStore } = await import('../store.ts');
          const definition = await entityOf(name, flags.module);
          const call = callOf(definition, method, flags);
          const input = await valueOf(data);
          await withStore(store, async (client) => {
            const answer = await call(client.entity(definition, key) as unknown as Methods, input).catch(refusal);
            if (flags.send) terminal.note(`sent ${printable(method)} to ${printable(`${name}/${key}`)}`);
            else terminal.answer(answer);
          });
        },
      ),
    );
}

async function entityOf(name: string, modules: readonly string[]) {
  const { entitiesOf } = await import('../modules.ts');
  const entities = await entitiesOf(modules);
  const found = entities.find((definition) => definition.name === name);
  if (found !== undefined) return found;
  const names = entities.map((definition) => printable(definition.name)).join(', ');
  throw usageError(`the modules export no entity ${printable(name)}; they export ${names || 'none'}`);
}

/**
 * Returns the call of a method.
 *
 * @throws Exit when there is no such method, or an option does not fit it
 */
function callOf(
  { name, entity: { handlers, reads } }: Awaited<ReturnType<typeof entityOf>>,
  method: string,
  { send, updateId, timeout }: Flags,
): (entity: Methods, input: unknown) => Promise<unknown> {
  const options = withoutUndefined({ updateId, timeout });
  const isUpdate = Object.keys(options).length > 0;
  if (Object.hasOwn(handlers, method)) {
    if (send && isUpdate) throw usageError('--update-id and --timeout are for a call that waits for its answer');
    if (send) return async (entity, input) => (entity.send as unknown as Methods)[method]?.(input);
    return async (entity, input) => entity[method]?.(input, options);
  }
  if (method === 'delete' && !send) return async (entity) => entity.delete?.(options);
  if (!Object.hasOwn(reads, method)) {
    const near = nearest(method, [...Object.keys(handlers), ...Object.keys(reads), 'delete']).map(printable);
    throw usageError(`entity ${printable(name)} has no ${printable(method)}; near it: ${near.join(', ')}`);
  }
  if (send || isUpdate) throw usageError(`${printable(method)} is a read, which takes no options of a call`);
  return async (entity, input) => entity[method]?.(input);
}
