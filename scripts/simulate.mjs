// Runs seeds of the simulator. It prints their ranges, so that they can be run again.
//
//   node scripts/simulate.mjs                         2 000 seeds that are always the same, then 2 000 of this commit
//   node scripts/simulate.mjs --nightly [YYYY-MM-DD]  1 000 000 seeds of a day (UTC), today if none is named
//
// The ranges of different commits, those of different days and the fixed one do not overlap, so each run is of new
// plans. (Two commits whose hashes begin with the same 40 bits have the same range.)

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { fileURLToPath } from 'node:url';

/** The seeds of each test run. */
const FIXED = /** @type {const} */ ([0, 2_000]);
const PER_COMMIT = 2_000;
const PER_DAY = 1_000_000;
const DAY_MS = 24 * 60 * 60 * 1_000;
/**
 * Seeds of days begin here, those of commits beyond the days of the next millennia. Below are seeds that people choose.
 */
const FIRST_OF_DAYS = 1e9;
const FIRST_OF_COMMITS = 1e13;

/**
 * The seeds of a commit, or of any other text: the first seed, and the first after the last.
 *
 * @param {string} commit
 * @returns {readonly [number, number]}
 */
export function seedsOfCommit(commit) {
  const block = Number.parseInt(createHash('sha256').update(commit).digest('hex').slice(0, 10), 16);
  const first = FIRST_OF_COMMITS + block * PER_COMMIT;
  return [first, first + PER_COMMIT];
}

/**
 * The seeds of a day: the first seed, and the first after the last.
 *
 * @param {string} day `YYYY-MM-DD`
 * @returns {readonly [number, number]}
 */
export function seedsOfDay(day) {
  const ms = Date.parse(day);
  if (!(ms >= 0) || dayOf(ms) !== day) throw new TypeError(`'${day}' is no day like 2026-01-31, from 1970-01-01 on`);
  const first = FIRST_OF_DAYS + (ms / DAY_MS) * PER_DAY;
  return [first, first + PER_DAY];
}

/** The text that the seeds of this state of the sources are drawn from. */
function commit() {
  const { status, stdout } = spawnSync('git', ['rev-parse', 'HEAD'], { encoding: 'utf8' });
  if (status === 0) return { text: stdout.trim(), said: `commit ${stdout.slice(0, 12)}` };
  // In a tarball, or without git, the seeds must not be the same for ever either.
  const day = today();
  return { text: day, said: `${day}, because there is no git repository here to name a commit` };
}

function today() {
  return dayOf(Date.now());
}

/** @param {number} ms */
function dayOf(ms) {
  return new Date(ms).toISOString().slice(0, 10);
}

/**
 * @param {readonly [number, number]} seeds
 * @param {string} of
 */
function simulate([first, end], of) {
  console.log(`seeds ${first}..${end}: those ${of}`);
  const args = ['run', '--bin', 'perdure-simulator', '--', '--seeds', `${first}..${end}`];
  const { status, error } = spawnSync('cargo', args, { stdio: 'inherit' });
  if (error) throw error;
  if (status !== 0) process.exitCode = 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [option, day, ...rest] = process.argv.slice(2);
  if (option === undefined) {
    const { text, said } = commit();
    simulate(FIXED, 'that are always run');
    simulate(seedsOfCommit(text), `of ${said}`);
  } else if (option === '--nightly' && rest.length === 0) {
    const of = day ?? today();
    simulate(seedsOfDay(of), `of ${of}`);
  } else {
    console.error('Usage: node scripts/simulate.mjs [--nightly [YYYY-MM-DD]]');
    process.exitCode = 2;
  }
}
