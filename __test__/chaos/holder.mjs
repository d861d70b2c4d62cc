// Holds the write lock of an SQLite file until this process is killed.

import Database from 'better-sqlite3';

import { say } from '../support/worker-parts.mjs';

const database = new Database(process.argv[2], { timeout: 20_000 });
database.exec('BEGIN IMMEDIATE');
process.on('disconnect', () => process.exit());
say({ type: 'holds' });
