// `perdure raise` and `perdure enqueue`

import { valueOf } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import { printable } from '../text.ts';

const DATA = 'JSON, @ and the path of a file of it, or - for the standard input';

export function messages(cli: Cli): void {
  cli
    .command('raise', 'raise an event for an instance that waits for it, or will')
    .argument('<id>', 'the instance')
    .argument('<event>', 'its name')
    .argument('[data]', DATA)
    .action(
      cli.storeAction(async ({ client, terminal }, id: string, event: string, data: string | undefined) => {
        await client.raiseEvent(id, event, await valueOf(data));
        terminal.note(`raised ${printable(event)} for ${printable(id)}`);
      }),
    );
  cli
    .command('enqueue', 'put a message into a queue of an instance')
    .argument('<id>', 'the instance')
    .argument('<queue>', 'its name')
    .argument('[data]', DATA)
    .action(
      cli.storeAction(async ({ client, terminal }, id: string, queue: string, data: string | undefined) => {
        await client.enqueueEvent(id, queue, await valueOf(data));
        terminal.note(`put into ${printable(queue)} of ${printable(id)}`);
      }),
    );
}
