// The rows of a store as other programs read them: with other libraries than the addon's, in processes of their own.

import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

import type { StoreAddress } from './providers.ts';

export type Row = Record<string, string | number | null>;

const [program, locked, development] = ['./rows.mjs', './locked.mjs', './development-store.mjs'].map((name) =>
  fileURLToPath(new URL(name, import.meta.url)),
) as [string, string, string];

/**
 * Returns the results of queries, all of one moment. Tables are named without their schema. An SQLite file is read in a
 * process of its own: otherwise there would be two SQLites in this process, and closing the file in one takes away the
 * locks that the other holds on it.
 */
export function queryAll(address: StoreAddress, queries: readonly string[]): Row[][] {
  const answer = execFileSync(process.execPath, [program, JSON.stringify(address), JSON.stringify(queries)], {
    encoding: 'utf8',
    maxBuffer: 256 * 1024 * 1024,
  });
  return JSON.parse(answer) as Row[][];
}

/** Returns the result of one query. */
export function query(address: StoreAddress, sql: string): Row[] {
  return queryAll(address, [sql])[0] ?? [];
}

/**
 * Changes rows in a way that no worker would, with one statement or several at once. Tables are named without their
 * schema.
 */
export function change(address: StoreAddress, statements: string | readonly string[]): void {
  execFileSync(process.execPath, [program, JSON.stringify(address), JSON.stringify([statements].flat()), 'write']);
}

/** Returns true if the file itself is sound, as SQLite sees it. A server ensures that by itself. */
export function isIntact(address: StoreAddress): boolean {
  return address.kind !== 'sqlite' || query(address, 'PRAGMA integrity_check')[0]?.integrity_check === 'ok';
}

/**
 * Returns true if no process can write to the store until another one, which holds the lock, continues. A server gives
 * up transactions whose processes stand still.
 */
export function isLocked(address: StoreAddress): boolean {
  if (address.kind !== 'sqlite') return false;
  return JSON.parse(execFileSync(process.execPath, [locked, address.path], { encoding: 'utf8' })) as boolean;
}

/** Makes a store as a development version before the first release has left it. Returns its version. */
export function makeDevelopmentStore(address: StoreAddress): number {
  return Number(execFileSync(process.execPath, [development, JSON.stringify(address)], { encoding: 'utf8' }));
}
