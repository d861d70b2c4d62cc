// Prints the rows of some queries as JSON, or runs statements that write: see rows.ts.

import Database from 'better-sqlite3';
import pg from 'pg';

const [address, queries] = process.argv.slice(2, 4).map((text) => JSON.parse(text));
const writes = process.argv[4] === 'write';

async function postgres({ url, schema }) {
  // Parses 64-bit integers as numbers, as SQLite returns them.
  pg.types.setTypeParser(pg.types.builtins.INT8, Number);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`SET search_path TO ${pg.escapeIdentifier(schema)}`);
  await client.query(writes ? 'BEGIN' : 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
  const answers = [];
  for (const sql of queries) answers.push((await client.query(sql)).rows);
  await client.query('COMMIT');
  await client.end();
  return answers;
}

function sqlite({ path }) {
  const database = new Database(path, { readonly: !writes });
  const all = database.transaction(() =>
    queries.map((sql) => (writes ? database.prepare(sql).run() : database.prepare(sql).all())),
  );
  const answers = all();
  database.close();
  return answers;
}

console.log(JSON.stringify(address.kind === 'sqlite' ? sqlite(address) : await postgres(address)));
