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
}

export function filterFlags(command: Command): Command {
  return command
    .option(
      '-s, --status <status>',
      'only those: Pending, Running, Suspended, Completed, Failed, Cancelled, Terminated; several with commas',
      statesArgument,
    )
    .option('--name <name>', 'only those of this orchestration')
    .option('--orchestration-version <version>', 'only those of this version of it')
    .option('-t, --tag <name=value>', 'only those with this tag; again for another', tagArgument)
    .option('--parent <id>', 'only children of this instance')
    .option('-p, --prefix <text>', 'only those whose id begins with this')
    .option(
      '--after <time>',
      "only those started after this: '2026-01-31T12:00:00Z', or '24h' for that long ago",
      timeArgument,
    )
    .option('--before <time>', 'only those started before this', timeArgument);
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
  } = flags;
  return withoutUndefined({ status, name, version, tags, parentId, idPrefix, createdAfter, createdBefore });
}

/** Returns the options without `undefined` values, which the client's types do not allow. */
export function withoutUndefined<T extends object>(options: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as never;
}
