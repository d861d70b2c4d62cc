// The guard against leaks: a test file that opens a provider or starts a runtime and does not end it fails.
//
// The methods of the built package are wrapped, so that every provider and runtime is seen, however a test makes it.
// Vitest runs each file in a module graph of its own, so the count is per file.

import { PostgresProvider, Runtime, SqliteProvider } from 'perdure';
import { afterAll, expect } from 'vitest';

/** Open providers and runtimes, and the places where they were opened. */
const open = new Map<object, { what: string; stack: string }>();

function opened(thing: object, what: string): void {
  open.set(thing, { what, stack: new Error().stack ?? '' });
}

const { open: openFile, inMemory } = SqliteProvider;
SqliteProvider.open = async (...args) => {
  const provider = await openFile.apply(SqliteProvider, args);
  opened(provider, `a provider of ${args[0]}`);
  return provider;
};
SqliteProvider.inMemory = async (...args) => {
  const provider = await inMemory.apply(SqliteProvider, args);
  opened(provider, 'a provider in memory');
  return provider;
};

const { connect } = PostgresProvider;
PostgresProvider.connect = async (...args) => {
  const provider = await connect.apply(PostgresProvider, args);
  opened(provider, 'a provider of a Postgres schema');
  return provider;
};

const { close } = SqliteProvider.prototype;
for (const { prototype } of [SqliteProvider, PostgresProvider]) {
  prototype.close = async function () {
    await close.call(this);
    open.delete(this);
  };
}

const { start, shutdown } = Runtime.prototype;
Runtime.prototype.start = async function (this: Runtime, options) {
  await start.call(this, options);
  opened(this, 'a runtime');
};
Runtime.prototype.shutdown = async function (this: Runtime, ...args) {
  await shutdown.apply(this, args);
  open.delete(this);
};

/** Returns a sentence for each provider and runtime that is open now. */
export function leaks(): string[] {
  return [...open.values()].map(({ what, stack }) => `${what} was left open, opened at\n${stack}`);
}

/** Ends everything that is open, runtimes first. Returns the sentences about it. */
export async function endLeaked(): Promise<string[]> {
  const found = leaks();
  const things = [...open.keys()];
  for (const runtime of things.filter((thing) => thing instanceof Runtime)) await runtime.shutdown(0);
  for (const thing of things) {
    if (thing instanceof SqliteProvider || thing instanceof PostgresProvider) await thing.close();
  }
  return found;
}

afterAll(async () => {
  expect(await endLeaked(), 'every file ends what it started').toEqual([]);
});
