// Makes an empty store of the version before the newest, with the migrations of that version, and prints both versions
// as JSON.

import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import pg from 'pg';

/** `PRAGMA application_id` of a store. */
const APPLICATION_ID = 0x5065_7264;

const address = JSON.parse(process.argv[2]);
const folder = fileURLToPath(new URL(`../../crates/provider-${address.kind}/src/migrations/`, import.meta.url));
const migrations = readdirSync(folder)
  .sort()
  .map((file) => readFileSync(folder + file, 'utf8'));
const older = migrations.length - 1;
const steps = migrations.slice(0, older).join('\n');

if (address.kind === 'sqlite') {
  const database = new Database(address.path);
  database.pragma('journal_mode = WAL');
  database.exec(steps);
  database.pragma(`application_id = ${APPLICATION_ID}`);
  database.pragma(`user_version = ${older}`);
  database.close();
} else {
  const schema = `"${address.schema}"`;
  const client = new pg.Client({ connectionString: address.url });
  await client.connect();
  await client.query(`CREATE SCHEMA ${schema}; CREATE TABLE ${schema}.schema_version (version integer NOT NULL)`);
  await client.query(`INSERT INTO ${schema}.schema_version VALUES (${older})`);
  await client.query(steps.replaceAll('{keys}', `'${schema}.instances_keys'`).replaceAll('{schema}', schema));
  await client.end();
}
console.log(JSON.stringify([older, migrations.length]));
