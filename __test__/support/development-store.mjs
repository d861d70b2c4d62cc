// Makes a store as a development version before the first release has left it, and prints its version. Its tables are
// of another shape: one of them stands for all.

import Database from 'better-sqlite3';
import pg from 'pg';

/** `PRAGMA application_id` of a store. */
const APPLICATION_ID = 0x5065_7264;
const VERSION = 6;

const address = JSON.parse(process.argv[2]);

if (address.kind === 'sqlite') {
  const database = new Database(address.path);
  database.pragma('journal_mode = WAL');
  database.exec('CREATE TABLE instances (key INTEGER PRIMARY KEY) STRICT');
  database.pragma(`application_id = ${APPLICATION_ID}`);
  database.pragma(`user_version = ${VERSION}`);
  database.close();
} else {
  const schema = `"${address.schema}"`;
  const client = new pg.Client({ connectionString: address.url });
  await client.connect();
  await client.query(`CREATE SCHEMA ${schema}; CREATE TABLE ${schema}.schema_version (version integer NOT NULL)`);
  await client.query(`INSERT INTO ${schema}.schema_version VALUES (${VERSION})`);
  await client.query(`CREATE TABLE ${schema}.instances (key bigint PRIMARY KEY)`);
  await client.end();
}
console.log(VERSION);
