/** Interval between the calls of a check that is polled, ms. */
const POLL_MS = 10;

/** A promise with its resolvers. */
export interface Deferred<T> {
  readonly promise: Promise<T>;
  resolve(value: T): void;
  reject(reason: unknown): void;
}

export function deferred<T = void>(): Deferred<T> {
  let resolve!: (value: T) => void;
  let reject!: (reason: unknown) => void;
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { promise, resolve, reject };
}

/** Counts up. A caller that waits for a number continues when it is reached. */
export class Counter {
  #count = 0;
  readonly #waiting: { at: number; resolve: () => void }[] = [];

  get count(): number {
    return this.#count;
  }

  add(): void {
    this.#count += 1;
    for (const { at, resolve } of this.#waiting) if (this.#count === at) resolve();
  }

  reaches(at: number): Promise<void> {
    if (this.#count >= at) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ at, resolve }));
  }
}

/**
 * Returns the error that a promise is rejected with. Fails if it is not rejected. To handle several at once: `await
 * Promise.all(list.map(rejection))`.
 */
export async function rejection<E = any>(promise: Promise<unknown>): Promise<E> {
  let value: unknown;
  try {
    value = await promise;
  } catch (error) {
    return error as E;
  }
  throw new Error(`it was not rejected, but gave ${JSON.stringify(value)}`);
}

/** Resolves when an `AbortSignal` is aborted, to its reason. */
export function aborted(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(signal.reason);
    else signal.addEventListener('abort', () => resolve(signal.reason), { once: true });
  });
}

/** Resolves after one turn of the event loop. */
export function nextTick(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Polls until the check returns true. Throws after `withinMs`. */
export async function eventually(
  withinMs: number,
  what: string,
  check: () => boolean | Promise<boolean>,
): Promise<void> {
  const deadline = Date.now() + withinMs;
  while (!(await check())) {
    if (Date.now() > deadline) throw new Error(`it did not come to this within ${withinMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Settles as the promise does. Rejects if that takes longer than `ms`. */
export async function within<T>(ms: number, what: string, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it did not come to this within ${ms} ms: ${what}`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
