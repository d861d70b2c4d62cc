// `perdure cancel`, `terminate`, `suspend` and `resume`

import type { Client } from '../../client/client.ts';
import type { Cli } from '../cli.ts';
import { printable } from '../text.ts';

interface Flags {
  readonly reason?: string;
}

/** A command that acts on one instance after the other, in the given order. */
interface Control {
  readonly name: string;
  readonly description: string;
  readonly done: string;
  readonly takesReason: boolean;
  act(client: Client, id: string, reason: string | undefined): Promise<void>;
}

const CONTROLS: readonly Control[] = [
  {
    name: 'cancel',
    description: 'cancel instances: their code may clean up; suspended instances end at once',
    done: 'cancel requested',
    takesReason: true,
    act: (client, id, reason) => client.cancelInstance(id, reason),
  },
  {
    name: 'terminate',
    description: 'terminate instances: they end at once, without cleanup',
    done: 'terminated',
    takesReason: true,
    act: (client, id, reason) => client.terminateInstance(id, reason),
  },
  {
    name: 'suspend',
    description: 'suspend instances: their code stops until `perdure resume`',
    done: 'suspended',
    takesReason: true,
    act: (client, id, reason) => client.suspend(id, reason),
  },
  {
    name: 'resume',
    description: 'resume suspended instances',
    done: 'resumed',
    takesReason: false,
    act: (client, id) => client.resume(id),
  },
];

export function control(cli: Cli): void {
  for (const { name, description, done, takesReason, act } of CONTROLS) {
    const command = cli.command(name, description).argument('<id...>', 'ids of the instances');
    if (takesReason) command.option('-r, --reason <text>', 'reason, stored with the instance');
    command.action(
      cli.storeAction(async ({ client, terminal }, ids: string[], { reason }: Flags) => {
        for (const id of ids) {
          await act(client, id, reason);
          terminal.note(`${printable(id)}: ${done}`);
        }
      }),
    );
  }
}
