// Flags that select instances, the same for each command that selects several.

import type { Command } from 'commander';

import type { InstanceState } from '../client/instance-status.ts';
import type { InstanceFilter } from '../client/listing.ts';
import { statesArgument, tagArgument, timeArgument } from './arguments.ts';

export interface FilterFlags {
  readonly status?: InstanceState[];
  readonly name?: string;
  readonly orchestrationVersion?: string;
  readonly tag?: Record<string, string>;
  readonly parent?: string;
  readonly prefix?: string;
  readonly after?: Date;
  readonly before?: Date;
  readonly system?: true;
}

export function filterFlags(command: Command): Command {
  return command
    .option(
      '-s, --status <status>',
      'only these statuses, separated by commas: Pending, Running, Suspended, Completed, Failed, Cancelled, Terminated',
      statesArgument,
    )
    .option('--name <name>', 'only instances of this orchestration')
    .option('--orchestration-version <version>', 'only instances of this version of the orchestration')
    .option('-t, --tag <name=value>', 'only instances with this tag; may be repeated', tagArgument)
    .option('--parent <id>', 'only children of this instance')
    .option('-p, --prefix <text>', 'only instances whose id begins with this text')
    .option(
      '--after <time>',
      "only instances started after this time: '2026-01-31T12:00:00Z', or '24h' for 24 hours ago",
      timeArgument,
    )
    .option('--before <time>', 'only instances started before this time', timeArgument)
    .option('--system', "also instances of Perdure's own orchestrations, named perdure.…");
}

/** Converts the flags to the client's filter. */
export function filterOf(flags: FilterFlags): InstanceFilter {
  const {
    status,
    name,
    orchestrationVersion: version,
    tag: tags,
    parent: parentId,
    prefix: idPrefix,
    after: createdAfter,
    before: createdBefore,
    system,
  } = flags;
  return withoutUndefined({ status, name, version, tags, parentId, idPrefix, createdAfter, createdBefore, system });
}

/** Returns the options without `undefined` values, which the client's types do not allow. */
export function withoutUndefined<T extends object>(options: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as never;
}
