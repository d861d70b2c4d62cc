// `perdure recode`

import type { Cli } from '../cli.ts';
import { EXIT, Exit, usageError } from '../exit.ts';
import { countText, printable } from '../text.ts';

interface Flags {
  readonly to?: string;
  readonly dryRun?: true;
}

/** Most unreadable texts that are named. */
const SHOWN_MAX = 10;

export function recoding(cli: Cli): void {
  cli
    .command('recode', 're-encode all values with the current key of a codec, while workers run')
    .option(
      '--to <module>',
      'module that exports the codec, which must read the old keys too (default: the module of --codec)',
    )
    .option('--dry-run', 'change nothing: count the texts per key')
    .action(
      cli.action(async ({ terminal, flags }, { to, dryRun: isDryRun }: Flags) => {
        const dryRun = isDryRun === true;
        const codec = to ?? flags.codec;
        if (codec === undefined) throw usageError('no codec: pass --to with the path of the module that exports it');
        const { withStore } = await import('../store.ts');
        const onProgress = ({ walk, rows, recoded }: { walk: number; rows: number; recoded: number }): void =>
          terminal.progress(`walk ${walk}: ${countText(rows, 'row')}, ${countText(recoded, 'text')} re-encoded`);
        const { keyId, recoded, found, unreadable, failures } = await withStore({ ...flags, codec }, (client) =>
          client.recode({ dryRun, onProgress }),
        );
        if (terminal.isJson) {
          const named = failures.map(({ instance, execution, place, error }) => ({
            instance,
            execution,
            place,
            message: error.message,
          }));
          terminal.data(dryRun ? { keyId, found } : { keyId, recoded, unreadable, failures: named });
        } else if (dryRun) {
          terminal.table(
            [
              { title: 'KEY', text: ([key]) => printable(key) },
              { title: 'TEXTS', text: ([, count]) => String(count), align: 'right' },
            ],
            Object.entries(found).sort(),
          );
        } else {
          terminal.line(`${countText(recoded, 'text')} re-encoded with key ${printable(keyId)}`);
        }
        if (unreadable === 0) return;
        const lines = failures
          .slice(0, SHOWN_MAX)
          .map(
            ({ instance, place, error }) =>
              `\n  instance ${printable(instance)}, ${printable(place)}: ${error.message}`,
          );
        throw new Exit(
          EXIT.unwell,
          `${countText(unreadable, 'text')} cannot be read by this codec and are unchanged:${lines.join('')}`,
        );
      }),
    );
}
