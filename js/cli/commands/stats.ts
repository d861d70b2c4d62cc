// `perdure stats`

import type { WorkerInfo } from '../../client/description.ts';
import { STATES } from '../../client/instance-status.ts';
import type { StoreStats } from '../../client/stats.ts';
import type { Cli } from '../cli.ts';
import type { Terminal } from '../terminal.ts';
import { countText, printable, spanText } from '../text.ts';
import { writeWorkers } from './workers.ts';

export function stats(cli: Cli): void {
  cli.command('stats', 'count instances by status, due instances, messages and tasks').action(
    cli.storeAction(async ({ client, terminal }) => {
      writeStats(terminal, await client.stats());
    }),
  );
}

export function writeStats(terminal: Terminal, found: StoreStats, workers?: readonly WorkerInfo[]): void {
  if (terminal.isJson) {
    terminal.data(workers === undefined ? found : { ...found, workers });
    return;
  }
  const { instances, messages, tasks, due } = found;
  const total = STATES.reduce((sum, state) => sum + instances[state], 0);
  terminal.fields([
    ['Instances', `${total}`],
    ...STATES.map(
      (state) =>
        [
          `  ${state}`,
          instances[state] === 0 ? terminal.style('dim', '0') : terminal.state(state, `${instances[state]}`),
        ] as const,
    ),
    ['Due', `${due.instances}${due.oldestMs === 0 ? '' : `, oldest for ${spanText(due.oldestMs)}`}`],
    ['  overdue', due.overdue === 0 ? terminal.style('dim', '0') : terminal.style('red', `${due.overdue}`)],
    ['Messages', `${messages} waiting`],
    ['Tasks', `${tasks.waiting} waiting, ${tasks.running} running`],
    ...tasks.queues.map(
      ({ name, waiting, running }) => [`  ${printable(name)}`, `${waiting} waiting, ${running} running`] as const,
    ),
    ['Workers', workers === undefined ? countText(found.workers, 'worker') : undefined],
  ]);
  if (workers !== undefined) {
    terminal.line();
    writeWorkers(terminal, workers);
  }
}
