// `perdure prune` and `perdure delete`

import type { Client } from '../../client/client.ts';
import { ENDED_STATES, type EndedState } from '../../client/instance-status.ts';
import type { PruneOptions } from '../../client/listing.ts';
import { timeArgument, wholeNumber, wordsOf } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import { confirm } from '../confirm.ts';
import { usageError } from '../exit.ts';
import { withoutUndefined } from '../filter.ts';
import type { Terminal } from '../terminal.ts';
import { countText, printable } from '../text.ts';

interface Flags {
  readonly status?: EndedState[];
  readonly name?: string;
  readonly prefix?: string;
  readonly completedBefore?: Date;
  readonly descendants?: true;
  readonly limit?: number;
  readonly executions?: number;
  readonly dryRun?: true;
  readonly yes?: true;
}

/** Instances that are deleted between two progress lines. */
const STEP = 1_000;

export function prune(cli: Cli): void {
  cli
    .command('prune', 'delete ended instances with their histories, oldest end first')
    .option(
      '-s, --status <status>',
      `only these statuses, separated by commas: ${ENDED_STATES.join(', ')}`,
      wordsOf(ENDED_STATES),
    )
    .option('--name <name>', 'only instances of this orchestration')
    .option('-p, --prefix <text>', 'only instances whose id begins with this text')
    .option(
      '--completed-before <time>',
      "only instances that ended before this time: '2026-01-31T12:00:00Z', or '30d' for 30 days ago",
      timeArgument,
    )
    .option('-n, --limit <count>', 'maximum number of instances', wholeNumber(1))
    .option(
      '--executions <keep>',
      'keep the instances, and delete the histories of their former executions except the last <keep>',
      wholeNumber(1),
    )
    .option('--dry-run', 'delete nothing: print the number of instances')
    .option('-y, --yes', 'do not ask for confirmation')
    .action(
      cli.storeAction(async ({ client, terminal }, flags: Flags) => {
        const { status, name, prefix: idPrefix, completedBefore, limit, executions: keep } = flags;
        if (keep !== undefined) {
          if (flags.dryRun === true || limit !== undefined) {
            throw usageError('--executions cannot be combined with --limit or --dry-run');
          }
          await confirm(
            terminal,
            flags,
            `delete the histories of all former executions except the last ${keep} of each instance?`,
          );
          const { deleted } = await client.pruneExecutions({
            keep,
            ...withoutUndefined({ status, name, idPrefix, completedBefore }),
          });
          told(terminal, deleted, 'history of a former execution', 'histories of former executions');
          return;
        }
        const options = withoutUndefined({ status, name, idPrefix, completedBefore }) as PruneOptions;
        if (flags.dryRun === true) {
          const count = await matching(client, terminal, options, limit ?? Infinity);
          if (terminal.isJson) terminal.data({ wouldDelete: count });
          else terminal.line(`${countText(count, 'instance')} would be deleted`);
          return;
        }
        const which = Object.keys(options).length === 0 ? 'all ended instances' : 'all ended instances that match';
        await confirm(terminal, flags, `delete ${which}${limit === undefined ? '' : `, at most ${limit}`}?`);
        told(terminal, await deleteAll(client, terminal, options, limit ?? Infinity), 'instance');
      }),
    );
  deletion(cli);
}

function deletion(cli: Cli): void {
  cli
    .command('delete', 'delete ended instances by id')
    .argument('<id...>', 'ids of the instances')
    .option('--descendants', 'delete all descendants of the instances, too: all must have ended')
    .option('-y, --yes', 'do not ask for confirmation')
    .action(
      cli.storeAction(async ({ client, terminal }, ids: string[], flags: Flags) => {
        await confirm(
          terminal,
          flags,
          `delete ${ids.length === 1 ? printable(ids[0] as string) : countText(ids.length, 'instance')}` +
            `${flags.descendants === true ? ' with all descendants' : ''}?`,
        );
        for (const id of ids) {
          const { deleted } = await client.deleteInstance(id, { descendants: flags.descendants === true });
          const others = deleted === 1 ? '' : ` with ${countText(deleted - 1, 'descendant')}`;
          terminal.note(`${printable(id)}: deleted${others}`);
        }
      }),
    );
}

async function deleteAll(client: Client, terminal: Terminal, options: PruneOptions, limit: number): Promise<number> {
  let all = 0;
  while (all < limit) {
    const step = Math.min(STEP, limit - all);
    const { deleted } = await client.prune({ ...options, limit: step });
    all += deleted;
    if (deleted < step) break;
    terminal.progress(`${all} deleted`);
  }
  return all;
}

async function matching(client: Client, terminal: Terminal, options: PruneOptions, limit: number): Promise<number> {
  const { completedBefore, status = ENDED_STATES, ...filter } = options;
  let count = 0;
  for await (const { completedAt } of client.listInstances({ system: true, ...filter, status })) {
    if (completedBefore !== undefined && !(completedAt !== undefined && completedAt < (completedBefore as Date)))
      continue;
    count += 1;
    if (count % STEP === 0) terminal.progress(`${count} instances counted`);
    if (count >= limit) break;
  }
  return count;
}

function told(terminal: Terminal, deleted: number, one: string, many?: string): void {
  if (terminal.isJson) terminal.data({ deleted });
  else terminal.line(`${countText(deleted, one, many)} deleted`);
}
