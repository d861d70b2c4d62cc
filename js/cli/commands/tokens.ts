// `perdure tokens` and `perdure token`

import type { TokenInfo } from '../../client/tokens.ts';
import { DATA, spanArgument, valueOf } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import { usageError } from '../exit.ts';
import { withoutUndefined } from '../filter.ts';
import type { Column } from '../table.ts';
import { agoText, printable, valueLine } from '../text.ts';

interface ListFlags {
  readonly open?: true;
  readonly instance?: string;
}

interface EndFlags {
  readonly reject?: string;
  readonly timeout?: number;
}

/** Tokens that are read and shown at once. The columns of each table are as wide as its own rows need. */
const PAGE = 200;

/** Longest text of the data, before it is cut to the terminal's width. */
const DATA_MAX = 120;

const COLUMNS: readonly Column<TokenInfo>[] = [
  { title: 'ID', text: ({ id }) => id },
  { title: 'STATUS', text: ({ status }) => status },
  { title: 'INSTANCE', text: ({ instanceId }) => printable(instanceId), mayShrink: true },
  { title: 'CREATED', text: ({ createdAt }) => agoText(createdAt) },
  { title: 'EXPIRES', text: ({ expiresAt }) => expiresAt?.toISOString() ?? '' },
  { title: 'DATA', text: ({ data }) => (data === undefined ? '' : valueLine(data, DATA_MAX)), mayShrink: true },
];

export function tokens(cli: Cli): void {
  cli
    .command('tokens', 'list the tokens of orchestrations, newest first')
    .option('--open', 'only tokens that can be resolved')
    .option('--instance <id>', 'only tokens of this instance')
    .action(
      cli.storeAction(async ({ client, terminal }, flags: ListFlags) => {
        const options = withoutUndefined({ open: flags.open, instanceId: flags.instance });
        let rows: TokenInfo[] = [];
        let count = 0;
        const write = async (): Promise<void> => {
          count += rows.length;
          if (!terminal.isJson && rows.length > 0) terminal.table(COLUMNS, rows);
          else for (const row of rows) terminal.data(row);
          await terminal.drain();
          rows = [];
        };
        for await (const token of client.listTokens(options)) {
          rows.push(token);
          if (rows.length === PAGE) await write();
        }
        await write();
        if (count === 0 && !terminal.isJson) terminal.note('there is no token');
      }),
    );
  token(cli);
}

function token(cli: Cli): void {
  cli
    .command('token', 'resolve a token, or reject it')
    .argument('<id>', 'id of the token')
    .argument('[value]', DATA)
    .option('--reject <message>', 'reject it with an error of this message')
    .option('--timeout <duration>', 'wait at most this long for a worker (default: for ever)', spanArgument)
    .action(
      cli.storeAction(async ({ client, terminal }, id: string, value: string | undefined, flags: EndFlags) => {
        const { reject, timeout } = flags;
        if (reject !== undefined && value !== undefined) throw usageError('--reject takes no value beside it');
        const options = withoutUndefined({ timeout });
        if (reject !== undefined) await client.rejectToken(id, reject, options);
        else await client.resolveToken(id, await valueOf(value), options);
        terminal.note(reject === undefined ? 'resolved' : 'rejected');
      }),
    );
}
