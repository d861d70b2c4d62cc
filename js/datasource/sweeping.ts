// Deletes the rows of steps that no attempt asks for any more (G5).

import type { Client } from '../client/client.ts';
import type { InstanceStatus } from '../client/instance-status.ts';
import type { StepDatabase } from './step.ts';
import type { OldStep } from './steps-table.ts';

/** Least time between two sweeps of a process, ms. */
export const SWEEP_EVERY = 60_000;
/** Age from which a row may be deleted, s. No attempt that began that long ago begins a transaction. */
export const SWEEP_AGE = 86_400;
/**
 * Age by which a row must be older than its instance to be of another instance with that id, s. Rows and instances have
 * their times from different clocks.
 */
const CLOCKS_APART = 2 * SWEEP_AGE;
/** Most rows of one page. */
export const SWEEP_PAGE = 500;
/** Most pages of one sweep after a step. The next sweep goes on behind them. */
const SWEEP_PAGES = 20;

/** Sweeps the table of one datasource. */
export class Sweeper {
  private readonly database: Pick<StepDatabase<unknown>, 'table' | 'run'>;
  private sweptAt = performance.now();
  /** The key of the last row that was looked at. */
  private after = '';
  private isSweeping = false;

  constructor(database: Pick<StepDatabase<unknown>, 'table' | 'run'>) {
    this.database = database;
  }

  /** Sweeps some pages in the background, if the last sweep is long ago. A failure is left to the next sweep. */
  afterStep(client: Client): void {
    const now = performance.now();
    if (this.isSweeping || now - this.sweptAt < SWEEP_EVERY) return;
    this.sweptAt = now;
    this.isSweeping = true;
    this.pages(client, SWEEP_PAGES)
      .catch(() => undefined)
      .finally(() => {
        this.isSweeping = false;
      });
  }

  /** Sweeps the whole table. Returns the number of deleted rows. */
  async sweep(client: Client): Promise<number> {
    this.after = '';
    return this.pages(client, Number.POSITIVE_INFINITY);
  }

  private async pages(client: Client, max: number): Promise<number> {
    const store = await client.storeId();
    let deleted = 0;
    for (let n = 0; n < max; n += 1) {
      const { table } = this.database;
      const rows = (await this.database.run([table.old(store, this.after, SWEEP_AGE, SWEEP_PAGE)])) as OldStep[];
      const gone = await keysOfGone(client, rows);
      if (gone.length > 0) await this.database.run([table.delete(gone)]);
      deleted += gone.length;
      this.after = rows.length < SWEEP_PAGE ? '' : (rows.at(-1)?.key ?? '');
      if (this.after === '') break;
    }
    return deleted;
  }
}

/** Returns the keys of the rows whose instances are gone, are younger than the row, or are in a later execution. */
async function keysOfGone(client: Client, rows: readonly OldStep[]): Promise<string[]> {
  if (rows.length === 0) return [];
  const ids = [...new Set(rows.map(({ instance }) => instance))];
  const found = new Map<string, Pick<InstanceStatus, 'executionId' | 'createdAt'>>();
  for await (const { id, executionId, createdAt } of client.listInstances({ ids }))
    found.set(id, { executionId, createdAt });
  const needed = ({ instance, execution, age }: OldStep): boolean => {
    const status = found.get(instance);
    if (status === undefined) return false;
    const instanceAge = (Date.now() - status.createdAt.getTime()) / 1_000;
    return status.executionId <= Number(execution) && instanceAge > Number(age) - CLOCKS_APART;
  };
  return rows.filter((row) => !needed(row)).map(({ key }) => key);
}
