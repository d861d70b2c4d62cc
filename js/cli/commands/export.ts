// `perdure export`

import { createHash } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { Client } from '../../client/client.ts';
import type { HistoryExport } from '../../client/history.ts';
import { wholeNumber } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import { usageError } from '../exit.ts';
import { type FilterFlags, filterFlags, filterOf } from '../filter.ts';
import type { Terminal } from '../terminal.ts';
import { countText, jsonText } from '../text.ts';

interface Flags extends FilterFlags {
  readonly execution?: number;
  readonly directory?: string;
  readonly limit: number;
}

export function exporting(cli: Cli): void {
  filterFlags(cli.command('export', 'export histories as JSON, for `perdure replay` and tests: by id, or by filter'))
    .argument('[id...]', 'ids of the instances')
    .option(
      '-e, --execution <number>',
      'number of the execution, from 1 (default: the current or last execution)',
      wholeNumber(1),
    )
    .option(
      '-d, --directory <path>',
      'write one file per instance into this directory, which is created if needed (default: standard output)',
    )
    .option('-n, --limit <count>', 'maximum number of instances that the filter selects', wholeNumber(1), 1_000)
    .action(
      cli.storeAction(async ({ client, terminal }, ids: string[], flags: Flags) => {
        const { directory, execution } = flags;
        const filter = filterOf(flags);
        if (ids.length > 0 && Object.keys(filter).length > 0) throw usageError('pass ids or filters, not both');
        if (ids.length === 0 && directory === undefined)
          throw usageError('pass an id, or --directory to export several instances');
        let count = 0;
        for await (const id of ids.length > 0 ? ids : matching(client, filter, flags.limit)) {
          const exported = await client.exportHistory(id, execution);
          await write(terminal, exported, directory);
          count += 1;
          terminal.progress(`${countText(count, 'history', 'histories')}`);
        }
        if (directory !== undefined) terminal.note(`${countText(count, 'history', 'histories')} in ${directory}`);
      }),
    );
}

async function* matching(client: Client, filter: ReturnType<typeof filterOf>, limit: number): AsyncGenerator<string> {
  for await (const { id } of client.listInstances({ ...filter, limit })) yield id;
}

async function write(terminal: Terminal, exported: HistoryExport, directory: string | undefined): Promise<void> {
  if (directory === undefined) {
    // Written unchanged, not made plain, because a replay reads it.
    terminal.line(jsonText(exported, terminal.isJson ? undefined : 2));
    await terminal.drain();
    return;
  }
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, fileName(exported)), `${JSON.stringify(exported, null, 2)}\n`);
}

/** Longest name that any file system keeps, with room for an ending. */
const NAME_MAX = 200;

/** Returns a file name that any file system takes and that no other execution has. */
function fileName({ instanceId, executionId }: HistoryExport): string {
  const safe = encodeURIComponent(instanceId).replaceAll('*', '%2A').replace(/^\./, '%2E');
  const name =
    safe.length <= NAME_MAX
      ? safe
      : `${safe.slice(0, NAME_MAX - 65)}-${createHash('sha256').update(instanceId).digest('hex')}`;
  return `${name}.${executionId}.json`;
}
