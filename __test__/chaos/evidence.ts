// Everything that can be seen of an instance that has not ended.

import type { Effect } from '../support/effects.ts';
import type { StoreRows } from '../support/violations.ts';

/** Entries that are shown from the end of a long list. */
const SHOWN = 15;

/**
 * Returns as text: the rows of the instance, its last events and attempts, its children, and the workers that could
 * wake it.
 */
export function evidenceOf(id: string, rows: StoreRows, effects: readonly Effect[]): string {
  const instance = rows.instances.find((row) => row.id === id);
  if (instance === undefined) return `'${id}' is not in the rows`;
  const own = <R extends { readonly instance_key: number }>(table: readonly R[]) =>
    table.filter(({ instance_key }) => instance_key === instance.key);
  const lines = [
    instance,
    ...own(rows.messages).map((message) => ({ message })),
    ...own(rows.tasks).map((task) => ({ task })),
    ...rows.instances.filter(({ parent_key }) => parent_key === instance.key).map((child) => ({ child })),
    ...rows.places.filter(({ key }) => key === instance.key).map((place) => ({ place })),
    ...own(rows.history)
      .slice(-SHOWN)
      .map(
        ({ execution, event_id, kind, ref_id, time }) => `${execution}/${event_id} ${kind} ${ref_id ?? ''} at ${time}`,
      ),
    ...effects.filter((effect) => effect.id === id).slice(-SHOWN),
    { workers: rows.workers.map((worker) => worker.id) },
  ];
  return lines.map((line) => `      ${typeof line === 'string' ? line : JSON.stringify(line)}`).join('\n');
}
