import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { Client as PgClient } from 'pg';
import { afterEach, beforeEach, expect, it } from 'vitest';

import { serveSite } from '../../examples/crawler/site.mjs';
import { Example } from '../support/example.ts';
import { POSTGRES_URL, temporaryFolder } from '../support/providers.ts';

let folder: string;
let schema: string;
let site: Awaited<ReturnType<typeof serveSite>>;
beforeEach(async () => {
  folder = temporaryFolder();
  schema = `perdure test ${randomUUID()}`;
  site = await serveSite();
});
afterEach(async () => {
  await site.close();
  rmSync(folder, { recursive: true });
  const server = new PgClient({ connectionString: POSTGRES_URL });
  await server.connect();
  await server.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
  await server.end();
});

/** The most requests that the site got within a time, ms. */
function mostWithin(ms: number): number {
  return Math.max(
    ...site.asked.map(({ at }) => site.asked.filter((other) => other.at >= at && other.at < at + ms).length),
  );
}

/** The pages that were asked for more than once. */
function repeated(): string[] {
  const seen = new Set<string>();
  return site.asked.map(({ path }) => path).filter((path) => seen.size === seen.add(path).size);
}

const FOUND = /^(\d+) pages, of which (\d+) cannot be had$/m;

it('reads each page once at a limited rate, over a kill', async () => {
  const args = [site.address, '--folder', folder, '--a-second', '30', '--at-once', '3'];
  const killed = new Example('crawler/main', ...args);
  await killed.printed(/[1-9]\d* wait/);
  expect(await killed.kill()).toBe('SIGKILL');
  const last = new Example('crawler/main', ...args);
  expect(await last.ended(), last.errors).toBe('0');

  const [, pages, missing] = FOUND.exec(last.output) ?? [];
  expect(Number(pages)).toBe(new Set(site.asked.map(({ path }) => path)).size);
  expect(Number(pages)).toBeGreaterThan(30);
  expect(last.output.match(/^http.*: 404$/gm)).toHaveLength(Number(missing));
  // Pages that were being read at the kill are read again.
  expect(repeated().length).toBeLessThanOrEqual(3);
  // The rate counts when a page begins, and the request follows a little later.
  expect(mostWithin(800)).toBeLessThanOrEqual(30 + 3);
});

it('shares the pages and the limits among processes on Postgres', async () => {
  const limits = ['--a-second', '40', '--at-once', '2'];
  const args = [site.address, '--store', POSTGRES_URL, '--schema', schema, '--folder', folder, ...limits];
  const processes = [new Example('crawler/main', ...args), new Example('crawler/main', ...args)];
  for (const process of processes) expect(await process.ended(), process.errors).toBe('0');
  const [first, second] = processes.map(({ output }) => FOUND.exec(output)?.[0]);
  expect(first).toBeDefined();
  expect(second).toBe(first);
  expect(repeated()).toEqual([]);
  expect(mostWithin(800)).toBeLessThanOrEqual(40 + 2);
});
