// `perdure show`

import type { Client } from '../../client/client.ts';
import type { StatusOptions } from '../../client/inputs.ts';
import type { InstanceDescription } from '../../client/instance-description.ts';
import type { InstanceStatus } from '../../client/instance-status.ts';
import type { StateValue } from '../../client/state.ts';
import { InstanceNotFoundError } from '../../errors/errors.ts';
import type { Cli } from '../cli.ts';
import { endMessage, isCancelled } from '../end.ts';
import type { Terminal } from '../terminal.ts';
import { agoText, countText, printable, printableLines, timeText, valueLine } from '../text.ts';
import { placeText, waitLines, workerText } from '../waits.ts';
import { orchestrationText, tookText } from './list.ts';

/** Longest text of the input, which has one line. */
const INPUT_MAX = 200;
/** Longest text of a published value, which has one line. */
const VALUE_MAX = 200;
/** Most published values. */
const NAMES_MAX = 20;

export function show(cli: Cli): void {
  cli
    .command('show', 'show an instance: status, input, result, published values, and what it waits for')
    .argument('<id>', 'id of the instance')
    .action(
      cli.storeAction(async ({ client, terminal }, id: string) => {
        const instance = await statusOf(client, id, { input: true });
        const description = await client.describe(id);
        const state = (await client.getState(id)) ?? new Map<string, StateValue>();
        if (terminal.isJson) terminal.data({ ...description, ...instance, state: Object.fromEntries(state) });
        else write(terminal, instance, description, state);
      }),
    );
}

/** @throws InstanceNotFoundError when there is no instance of that id */
export async function statusOf(client: Client, id: string, options?: StatusOptions): Promise<InstanceStatus> {
  const instance = await client.getStatus(id, options);
  if (instance === null) throw new InstanceNotFoundError(`there is no instance '${printable(id)}'`, { instanceId: id });
  return instance;
}

function write(
  terminal: Terminal,
  instance: InstanceStatus,
  description: InstanceDescription | null,
  state: ReadonlyMap<string, StateValue>,
): void {
  const {
    id,
    status,
    input,
    executionId,
    customStatus,
    createdAt,
    completedAt,
    updatedAt,
    parentId,
    priority,
    tags,
    error,
  } = instance;
  terminal.fields([
    ['Instance', terminal.style('bold', printable(id))],
    ['Orchestration', orchestrationText(instance)],
    ['Status', `${terminal.state(status)}${status === 'Pending' ? ': no runtime has started it yet' : ''}`],
    ['Execution', executionId === 1 ? undefined : `${executionId}`],
    ['Parent', parentId === undefined ? undefined : printable(parentId)],
    ['Priority', priority === undefined ? undefined : String(priority)],
    [
      'Tags',
      Object.keys(tags).length === 0
        ? undefined
        : Object.entries(tags)
            .map(([name, value]) => printable(`${name}=${value}`))
            .join(' '),
    ],
    ['Started', `${timeText(createdAt)} (${agoText(createdAt)})`],
    ['Updated', completedAt === undefined ? `${timeText(updatedAt)} (${agoText(updatedAt)})` : undefined],
    ['Ended', completedAt === undefined ? undefined : `${timeText(completedAt)} (after ${tookText(instance)})`],
    ['Input', input === undefined ? undefined : valueLine(input, INPUT_MAX)],
    ['Custom status', customStatus === undefined || customStatus === null ? undefined : terminal.value(customStatus)],
    ['State', stateLines(state).join('\n') || undefined],
    ['Output', status === 'Completed' ? terminal.value(instance.output) : undefined],
    isCancelled(instance)
      ? ['Reason', printable(endMessage(instance)) || undefined]
      : ['Error', error === undefined ? undefined : terminal.style('red', errorLines(error))],
    ['Worker', description?.worker === undefined ? undefined : workerText(description.worker)],
    ['Queue', description?.queue === undefined ? undefined : placeText(description.queue.name, description.queue)],
    ['Starts', status === 'Pending' && description?.dueAt !== undefined ? timeText(description.dueAt) : undefined],
    ['Unread', description === null || description.unread === 0 ? undefined : `${description.unread} messages`],
    ['Waits for', (description === null ? [] : waitLines(description)).join('\n') || undefined],
  ]);
}

/** Returns a line for each published value. */
function stateLines(values: ReadonlyMap<string, StateValue>): string[] {
  const lines = Array.from(values)
    .slice(0, NAMES_MAX)
    .map(([name, { value }]) => `${printable(name)}: ${valueLine(value, VALUE_MAX)}`);
  const more = values.size - lines.length;
  return more === 0 ? lines : [...lines, `and ${countText(more, 'more value')}: see perdure state`];
}

/** Formats an error with its causes, without stacks. */
function errorLines(error: Error): string {
  const lines: string[] = [];
  for (let at: unknown = error; at instanceof Error && lines.length < 10; at = at.cause) {
    const { code } = at as Error & { code?: unknown };
    const named = typeof code === 'string' ? `${at.name} (${code})` : at.name;
    lines.push(`${lines.length === 0 ? '' : 'caused by '}${printable(named)}: ${printableLines(at.message)}`);
  }
  return lines.join('\n');
}
