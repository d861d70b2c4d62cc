// The store of a soak, and the file or server below it.

import { randomUUID } from 'node:crypto';
import { existsSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Client as PgClient } from 'pg';

import { POSTGRES_URL, postgresAt, type StoreAddress, type StoreSite, temporaryFolder } from '../support/providers.ts';
import type { Gauges } from './gauge.ts';

export interface Site {
  readonly address: StoreAddress;
  gauges(): Promise<Gauges>;
  /** Returns as sentences the traces that remain of processes that are gone. */
  left(): Promise<string[]>;
  remove(): Promise<void>;
}

/** A SQLite file. */
export class SqliteSite implements Site {
  readonly #folder = temporaryFolder();
  readonly #path = join(this.#folder, 'store.db');
  readonly address: StoreAddress = { kind: 'sqlite', path: this.#path };

  async gauges(): Promise<Gauges> {
    return { 'store size': sizeOf(this.#path), 'log size': sizeOf(this.#log) };
  }

  /** The last process that closes the file copies the log into it. */
  async left(): Promise<string[]> {
    return existsSync(this.#log) ? [`a log of ${sizeOf(this.#log)} bytes is left beside the store`] : [];
  }

  async remove(): Promise<void> {
    rmSync(this.#folder, { recursive: true });
  }

  get #log(): string {
    return `${this.#path}-wal`;
  }
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/** The default interval of a server's autovacuum, ms. */
const VACUUM_MS = 60_000;

/**
 * A schema on the server that the tests use. Its connections have an application name of their own, since other tests
 * use that server too.
 */
export class PostgresSite implements Site {
  readonly #name = `perdure-soak-${randomUUID()}`;
  readonly #site: StoreSite;
  readonly #observer = new PgClient({ connectionString: POSTGRES_URL });

  /** The time of the last vacuum. */
  #vacuumed = performance.now();

  private constructor() {
    const url = new URL(POSTGRES_URL);
    url.searchParams.set('application_name', this.#name);
    this.#site = postgresAt(url.href).create();
  }

  static async create(): Promise<PostgresSite> {
    const site = new PostgresSite();
    await site.#observer.connect();
    return site;
  }

  get address(): StoreAddress & { kind: 'postgres' } {
    return this.#site.address as StoreAddress & { kind: 'postgres' };
  }

  async gauges(): Promise<Gauges> {
    await this.#vacuum();
    const sql = `SELECT (SELECT count(*) FROM pg_stat_activity WHERE application_name = $1) AS connections,
      (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = $2 AND c.relkind = 'r') AS bytes`;
    const { rows } = await this.#observer.query(sql, [this.#name, this.address.schema]);
    return { connections: Number(rows[0].connections), 'store size': Number(rows[0].bytes) };
  }

  /**
   * Vacuums as a server with autovacuum does, if autovacuum is off: otherwise deleted rows would take room for ever.
   */
  async #vacuum(): Promise<void> {
    if (performance.now() < this.#vacuumed + VACUUM_MS) return;
    this.#vacuumed = performance.now();
    const [autovacuum] = (await this.#observer.query('SHOW autovacuum')).rows;
    if (autovacuum.autovacuum === 'on') return;
    const { rows } = await this.#observer.query(
      "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname = $1",
      [this.address.schema],
    );
    for (const { name } of rows) await this.#observer.query(`VACUUM ${name}`);
  }

  async left(): Promise<string[]> {
    const { connections } = await this.gauges();
    return connections === 0 ? [] : [`${connections} connections are left`];
  }

  async remove(): Promise<void> {
    await this.#observer.end();
    await this.#site.remove();
  }
}
