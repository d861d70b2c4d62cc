// The queues that hold the inputs of batches. crates/provider-encoded/src/place.rs reads their names, too.

/** The begin of their names. JSON of the name of the orchestration and the key of the batch follows. */
const BATCH = 'perdure.batch:';

/** A batch: the name of its orchestration, and its key. */
export interface BatchName {
  readonly orchestration: string;
  readonly key: string;
}

/** Returns the name of the queue of a batch. Part of the format. */
export function batchQueueOf({ orchestration, key }: BatchName): string {
  return BATCH + JSON.stringify([orchestration, key]);
}

/** Returns the batch whose inputs a queue holds; `undefined` if it holds none. */
export function batchOf(queue: string): BatchName | undefined {
  if (!queue.startsWith(BATCH)) return undefined;
  try {
    const [orchestration, key] = JSON.parse(queue.slice(BATCH.length));
    return typeof orchestration === 'string' && typeof key === 'string' ? { orchestration, key } : undefined;
  } catch {
    return undefined;
  }
}
