// `perdure queues`: the command itself lists the queues, and its commands set, pause, resume and delete one of
// them.

import type { Cli } from '../../cli.ts';
import { commandGroup } from '../../command-group.ts';
import { control } from './control.ts';
import { list, writeAll } from './list.ts';

export function queues(cli: Cli): void {
  const description = 'list, set, pause, resume and delete queues';
  commandGroup(cli, 'queues', description, [list, control], writeAll);
}
