// Runs a role of a workload in a process of its own. Its result comes over a pipe of its own (descriptor 3), so that
// its output does no harm.

import { spawn } from 'node:child_process';
import { join } from 'node:path';

import { root } from './paths.mjs';

/** The time after which a role counts as hung. */
const LIMIT_MS = 180_000;

/**
 * Runs a role.
 *
 * @param {string} workload of a workload, or of a peer
 * @param {string} role
 * @param {object} job
 * @param {{ command?: string[], nodeOptions?: string[], clone?: string }} options `command` goes before node, as
 *   `perf record … --`; `clone`: the clone of this project whose workload and whose Perdure run (default: this one)
 * @returns {Promise<any>} the value that the role returned
 */
export function runChild(workload, role, job, options = {}) {
  return start(workload, role, job, options).result;
}

/**
 * Runs a role in several processes at once, one a job. When all of them have called `meet`, it resolves in all of them.
 *
 * @returns {Promise<any[]>} the values that they returned
 */
export async function runTogether(workload, role, jobs, options = {}) {
  const running = jobs.map((job) => start(workload, role, job, options));
  let there = 0;
  for (const { child } of running) {
    child.on('message', () => {
      there += 1;
      if (there % running.length === 0) for (const { child } of running) child.send('go');
    });
  }
  try {
    return await Promise.all(running.map(({ result }) => result));
  } finally {
    for (const { child } of running) child.kill();
  }
}

function start(workload, role, job, { command = [], nodeOptions = [], clone = root }) {
  const script = join(clone, 'bench', 'lib', 'child.mjs');
  const line = [...command, process.execPath, ...nodeOptions, script, workload, role, JSON.stringify(job)];
  const stdio = ['ignore', process.stderr, process.stderr, 'pipe', 'ipc'];
  const child = spawn(line[0], line.slice(1), { stdio, timeout: LIMIT_MS });
  const result = new Promise((resolve, reject) => {
    let text = '';
    child.stdio[3].setEncoding('utf8').on('data', (part) => {
      text += part;
    });
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (code === 0 && text !== '') resolve(JSON.parse(text));
      else
        reject(new Error(`${workload} (${role}) ended with ${signal ?? `code ${code}`} before its result was there`));
    });
  });
  return { child, result };
}
