// Prints whether a process holds the write lock of an SQLite file: see rows.ts.

import Database from 'better-sqlite3';

const database = new Database(process.argv[2], { timeout: 0 });
let locked = false;
try {
  database.exec('BEGIN IMMEDIATE; ROLLBACK');
} catch (error) {
  if (error.code !== 'SQLITE_BUSY') throw error;
  locked = true;
}
database.close();
console.log(locked);
