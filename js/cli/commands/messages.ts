// `perdure raise` and `perdure enqueue`

import { valueOf } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import { printable } from '../text.ts';

const DATA = 'data as JSON, @ and the path of a JSON file, or - for standard input';

export function messages(cli: Cli): void {
  cli
    .command('raise', 'raise an event for an instance')
    .argument('<id>', 'id of the instance')
    .argument('<event>', 'name of the event')
    .argument('[data]', DATA)
    .action(
      cli.storeAction(async ({ client, terminal }, id: string, event: string, data: string | undefined) => {
        await client.raiseEvent(id, event, await valueOf(data));
        terminal.note(`raised ${printable(event)} for ${printable(id)}`);
      }),
    );
  cli
    .command('enqueue', 'send a message to a queue of an instance')
    .argument('<id>', 'id of the instance')
    .argument('<queue>', 'name of the queue')
    .argument('[data]', DATA)
    .action(
      cli.storeAction(async ({ client, terminal }, id: string, queue: string, data: string | undefined) => {
        await client.enqueueEvent(id, queue, await valueOf(data));
        terminal.note(`sent to queue ${printable(queue)} of ${printable(id)}`);
      }),
    );
}
