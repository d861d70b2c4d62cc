// `perdure schedules`: the command itself lists the schedules, and its commands show, set and run one of them.

import type { Cli } from '../../cli.ts';
import { commandGroup } from '../../command-group.ts';
import { control } from './control.ts';
import { list, writeAll } from './list.ts';
import { runs } from './runs.ts';
import { set } from './set.ts';
import { show } from './show.ts';

export function schedules(cli: Cli): void {
  const commands = [list, show, set, control, runs];
  commandGroup(cli, 'schedules', 'list, show, set and run schedules', commands, writeAll);
}
