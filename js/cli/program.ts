// The command line as a whole: its commands, its flags, and its exit code.

import { readFileSync } from 'node:fs';

import { Command, CommanderError, Option } from 'commander';

import { Cli } from './cli.ts';
import { backup } from './commands/backup.ts';
import { check } from './commands/check.ts';
import { completion } from './commands/completion.ts';
import { control } from './commands/control.ts';
import { dashboard } from './commands/dashboard.ts';
import { datasource } from './commands/datasource.ts';
import { doctor } from './commands/doctor.ts';
import { entity } from './commands/entity.ts';
import { exporting } from './commands/export.ts';
import { history } from './commands/history.ts';
import { list } from './commands/list.ts';
import { logs } from './commands/logs.ts';
import { messages } from './commands/messages.ts';
import { migrate } from './commands/migrate.ts';
import { prune } from './commands/prune.ts';
import { query } from './commands/query.ts';
import { queues } from './commands/queues/queues.ts';
import { recoding } from './commands/recode.ts';
import { replaying } from './commands/replay.ts';
import { schedules } from './commands/schedules/schedules.ts';
import { show } from './commands/show.ts';
import { start } from './commands/start.ts';
import { state } from './commands/state.ts';
import { stats } from './commands/stats.ts';
import { stream } from './commands/stream.ts';
import { timeline } from './commands/timeline.ts';
import { tokens } from './commands/tokens.ts';
import { tree } from './commands/tree.ts';
import { watch } from './commands/watch.ts';
import { workers } from './commands/workers.ts';
import { errorData, errorText, exitCodeOf, withoutPassword } from './exit.ts';
import { type Stream, Terminal } from './terminal.ts';

/** The environment of a command line. */
export interface CliEnvironment {
  readonly stdout: Stream;
  readonly stderr: Stream;
  /** True if the user can answer a question. */
  readonly isInteractive: boolean;
}

const EXIT_CODES = `
Exit codes: 0 success; 1 failure; 2 invalid arguments; 3 instance or schedule not found; 4 negative result (a history
does not match, the doctor or the check found a problem, an instance has no value of that name, or it ended with a
status other than Completed); 5 timeout.

--db or PERDURE_DB selects the store: a SQLite file or a Postgres server. Only migrate creates or changes its tables.

  perdure --db shop.db list --status Running
  PERDURE_DB=postgres://app@db/shop perdure show order-1`;

/** Runs one command line, and returns its exit code: see {@link EXIT}. */
export async function run(args: readonly string[], { stdout, stderr, isInteractive }: CliEnvironment): Promise<number> {
  const isJson = args.includes('--json');
  const tell = (error: object, text: string): void => {
    stderr.write(isJson ? `${JSON.stringify({ error })}\n` : text);
  };
  const program = new Command('perdure')
    .description('Inspect and manage the durable orchestrations of a store.')
    .version(version(), '-V, --version')
    .addOption(new Option('--db <store>', 'path of a SQLite file, or URL of a Postgres server').env('PERDURE_DB'))
    .addOption(new Option('--schema <name>', 'schema of a Postgres store (default: perdure)').env('PERDURE_SCHEMA'))
    .addOption(new Option('--codec <module>', 'module that exports the codec of the store').env('PERDURE_CODEC'))
    .option('--json', 'print one JSON value per line, for scripts')
    .addHelpText('after', EXIT_CODES)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
      outputError: (text) => {
        const message = withoutPassword(text.replace(/^error: /, ''));
        tell({ name: 'Error', message: message.trim() }, `perdure: ${message}`);
      },
    })
    .configureHelp({ showGlobalOptions: true })
    .showSuggestionAfterError();
  const cli = new Cli(program, (isJson) => new Terminal(stdout, stderr, isInteractive, isJson));
  const commands = [
    list,
    show,
    tree,
    history,
    timeline,
    logs,
    state,
    stream,
    watch,
    start,
    messages,
    tokens,
    query,
    entity,
    schedules,
    queues,
    control,
    exporting,
    replaying,
    prune,
    recoding,
    stats,
    workers,
    doctor,
    check,
    backup,
    dashboard,
    migrate,
    datasource,
  ];
  for (const add of commands) add(cli);
  completion(program);
  try {
    await program.parseAsync(args, { from: 'user' });
    return 0;
  } catch (error) {
    // Commander has already printed its own errors.
    if (!(error instanceof CommanderError)) tell(errorData(error), `perdure: ${errorText(error)}\n`);
    return exitCodeOf(error);
  }
}

function version(): string {
  const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(manifest) as { version: string }).version;
}
