// The rights that the guide names are enough: the SQL of docs/deploying.md is run as it is written, except for the
// names, and a store is used under those roles.

import { randomUUID } from 'node:crypto';
import { Client, defineActivity, defineOrchestration, PostgresProvider, Runtime } from 'perdure';
import { Client as PgClient } from 'pg';
import { afterEach, beforeEach, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { readPages } from '../../support/docs.ts';
import { POSTGRES_URL } from '../../support/providers.ts';
import { SOON } from '../../support/store.ts';

const PASSWORD = 'c4naryS3cret';
/** Postgres' insufficient_privilege. */
const DENIED = '42501';

const echo = defineActivity('echo', async (_, value: string) => `${value} back`);
const steps = defineOrchestration('steps', function* (ctx, input: string) {
  ctx.setCustomStatus('begun');
  return [yield* ctx.call(echo, input), yield* ctx.waitForEvent<string>('go')];
});

const blocks =
  readPages()
    .find(({ name }) => name === 'docs/deploying.md')
    ?.blocks.filter(({ kind }) => kind === 'sql') ?? [];

/** Roles of the test. The first has a schema of its own name. */
let shop: string;
let web: string;
/** The database of their URLs. */
let database: string;
let closing: (() => Promise<unknown>)[];

beforeEach(() => {
  const id = randomUUID().replaceAll('-', '');
  [shop, web, database, closing] = [`shop_${id}`, `web_${id}`, POSTGRES_URL, []];
});

afterEach(async () => {
  for (const close of closing.reverse()) await close();
  await run(POSTGRES_URL, `DROP SCHEMA IF EXISTS ${shop} CASCADE`);
  for (const role of [web, shop]) {
    const { rowCount } = await run(POSTGRES_URL, `SELECT FROM pg_roles WHERE rolname = '${role}'`);
    if (rowCount !== 0) await run(POSTGRES_URL, `DROP OWNED BY ${role}; DROP ROLE ${role}`);
  }
});

/** Returns the SQL of a block. */
function sqlOf(file: string): string {
  const found = blocks.find((block) => block.file === file);
  if (found === undefined) throw new Error(`docs/deploying.md has no block ${file}`);
  return found.code
    .join('\n')
    .replace(/\bshop\b/g, shop)
    .replace(/\bweb\b/g, web)
    .replace("'…'", `'${PASSWORD}'`);
}

async function run(url: string, sql: string): Promise<{ rowCount: number | null }> {
  const server = new PgClient({ connectionString: url });
  await server.connect();
  try {
    return await server.query(sql);
  } finally {
    await server.end();
  }
}

function urlOf(role: string): string {
  const url = new URL(database);
  [url.username, url.password] = [role, PASSWORD];
  return url.href;
}

const createWeb = () => run(POSTGRES_URL, `CREATE ROLE ${web} LOGIN PASSWORD '${PASSWORD}'`);

async function connect(role: string): Promise<PostgresProvider> {
  const provider = await PostgresProvider.connect(urlOf(role), { schema: shop, poolSize: 3 });
  closing.push(() => provider.close());
  return provider;
}

/** Starts an orchestration as this role, finishes it, and deletes it. */
async function work(role: string): Promise<void> {
  const provider = await connect(role);
  const runtime = new Runtime(provider, { logLevel: 'silent' });
  closing.push(() => runtime.shutdown(0));
  const errors: Error[] = [];
  runtime.on('error', (error) => errors.push(error));
  runtime.register(steps, echo);
  await runtime.start();
  const client = new Client(provider);
  const handle = await client.start(steps, 'order', { id: `of ${role}`, tags: { role } });
  await handle.raiseEvent('go', 'event');
  expect(await handle.result({ timeout: SOON })).toEqual(['order back', 'event']);
  expect((await client.listInstances({ tags: { role } }).page()).items).toHaveLength(1);
  await client.deleteInstance(handle.id);
  await runtime.shutdown();
  expect(errors).toEqual([]);
}

it('the guide has no SQL that is not run here', () => {
  expect(blocks.map(({ file }) => file)).toEqual([
    'rights.sql',
    'rights-without-migrations.sql',
    'default-privileges.sql',
  ]);
  const others = readPages().filter(({ name }) => name !== 'docs/deploying.md');
  expect(others.flatMap(({ name, blocks }) => blocks.filter(({ kind }) => kind === 'sql').map(() => name))).toEqual([]);
});

it('a role makes its store in the schema that was made for it, and works there', async () => {
  await run(POSTGRES_URL, sqlOf('rights.sql'));
  await work(shop);
});

it('a role that must not change tables works in the store that another one made', async () => {
  await run(POSTGRES_URL, sqlOf('rights.sql'));
  await connect(shop);
  await createWeb();
  await run(urlOf(shop), sqlOf('rights-without-migrations.sql'));
  await work(web);
  expect(await rejection(run(urlOf(web), `CREATE TABLE ${shop}.mine ()`))).toMatchObject({ code: DENIED });
  expect(await rejection(run(urlOf(web), `ALTER TABLE ${shop}.history ADD COLUMN mine int`))).toMatchObject({
    code: DENIED,
  });
});

it('such a role may use the tables of a later migration after a grant', async () => {
  await run(POSTGRES_URL, sqlOf('rights.sql'));
  await connect(shop);
  await createWeb();
  await run(urlOf(shop), sqlOf('rights-without-migrations.sql'));
  const makes = (name: string) =>
    run(urlOf(shop), `CREATE TABLE ${shop}.${name} (key bigint); CREATE SEQUENCE ${shop}.${name}_keys`);
  const uses = (name: string) =>
    run(
      urlOf(web),
      `INSERT INTO ${shop}.${name} VALUES (nextval('${shop}.${name}_keys'));
       UPDATE ${shop}.${name} SET key = 2;
       SELECT FROM ${shop}.${name};
       DELETE FROM ${shop}.${name}`,
    );
  await makes('before');
  expect(await rejection(uses('before'))).toMatchObject({ code: DENIED });
  await run(urlOf(shop), sqlOf('default-privileges.sql'));
  await makes('later');
  await uses('later');
});

// The rights are granted first: each table of the store is then made by a later migration.
it('such a role may use a whole store that is made once that is said', async () => {
  await run(POSTGRES_URL, sqlOf('rights.sql'));
  await createWeb();
  const [usage = ''] = sqlOf('rights-without-migrations.sql').split('\n');
  expect(usage).toBe(`GRANT USAGE ON SCHEMA ${shop} TO ${web};`);
  await run(urlOf(shop), `${usage}${sqlOf('default-privileges.sql')}`);
  await connect(shop);
  await work(web);
});

// Such a role cannot tell a restart of the server from a restore, and treats each restart as a restore.
it('a role that may not call pg_control_system works', async () => {
  const name = `perdure_${shop}`;
  await run(POSTGRES_URL, `CREATE DATABASE ${name}`);
  closing.push(() => run(POSTGRES_URL, `DROP DATABASE ${name} WITH (FORCE)`));
  database = Object.assign(new URL(POSTGRES_URL), { pathname: `/${name}` }).href;
  await run(database, 'REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC');
  await run(database, sqlOf('rights.sql'));
  expect(await rejection(run(urlOf(shop), 'SELECT pg_control_system()'))).toMatchObject({ code: DENIED });
  await work(shop);
});
