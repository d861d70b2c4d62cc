// The kinds of store that the end to end tests run on. Another kind joins here and nowhere else.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Provider, SqliteProvider } from 'perdure';

/** One kind of store: the parameter of `describe.each`. */
export interface StoreKind {
  readonly name: string;
  /** Whether several providers, also of other processes, can open one store. */
  readonly isShared: boolean;
  /** Make a store that is empty. */
  create(): StoreSite;
}

/** One store, opened or not. */
export interface StoreSite {
  /** What a worker process is told, see crash/worker.mjs. */
  readonly address: StoreAddress;
  open(): Promise<Provider>;
  /** Take it away, once all that was opened on it is closed. */
  remove(): void;
}

/** Where a store is, for a process that is to open it. */
export interface StoreAddress {
  readonly kind: 'sqlite';
  readonly path: string;
}

const sqliteFile: StoreKind = {
  name: 'an SQLite file',
  isShared: true,
  create() {
    const folder = temporaryFolder();
    const path = join(folder, 'store.db');
    return {
      address: { kind: 'sqlite', path },
      open: () => SqliteProvider.open(path),
      remove: () => rmSync(folder, { recursive: true }),
    };
  },
};

const sqliteInMemory: StoreKind = {
  name: 'SQLite in memory',
  isShared: false,
  create: () => ({
    address: { kind: 'sqlite', path: '' },
    open: () => SqliteProvider.inMemory(),
    remove: () => {},
  }),
};

export const STORES: readonly StoreKind[] = [sqliteFile, sqliteInMemory];

/** Those that outlive a provider and can be opened by several processes. */
export const SHARED_STORES: readonly StoreKind[] = STORES.filter((kind) => kind.isShared);

/** A folder of its own; whoever asks takes it away. */
export function temporaryFolder(): string {
  return mkdtempSync(join(tmpdir(), 'perdure-test-'));
}
