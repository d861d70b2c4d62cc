// The items of a stream, as tests read and compare them.

import type { StreamEntry, StreamReset } from 'perdure';

export type Item = StreamEntry<any> | StreamReset;

export async function all(items: AsyncIterable<Item>): Promise<Item[]> {
  const read: Item[] = [];
  for await (const item of items) read.push(item);
  return read;
}

/** The items as `index value`, or `index reset from`. */
export function told(items: readonly Item[]): string[] {
  return items.map((item) =>
    item.reset ? `${item.index} reset ${item.from}` : `${item.index} ${JSON.stringify(item.value)}`,
  );
}
