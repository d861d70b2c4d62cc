// Running a role of a workload in a process of its own. Its result comes over a pipe of its own (descriptor 3), so that
// whatever it prints does no harm.

import { spawn } from 'node:child_process';
import { join } from 'node:path';

import { bench } from './paths.mjs';

/** A role that takes longer hangs. */
const LIMIT_MS = 180_000;

/**
 * @param {string} workload
 * @param {string} role
 * @param {object} job
 * @param {{ command?: string[], nodeOptions?: string[] }} options `command` goes before node, as `perf record … --`
 * @returns {Promise<any>} what the role returned
 */
export function runChild(workload, role, job, { command = [], nodeOptions = [] } = {}) {
  const script = join(bench, 'lib', 'child.mjs');
  const line = [...command, process.execPath, ...nodeOptions, script, workload, role, JSON.stringify(job)];
  return new Promise((resolve, reject) => {
    const stdio = ['ignore', process.stderr, process.stderr, 'pipe'];
    const child = spawn(line[0], line.slice(1), { stdio, timeout: LIMIT_MS });
    let text = '';
    child.stdio[3].setEncoding('utf8').on('data', (part) => {
      text += part;
    });
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (code === 0 && text !== '') resolve(JSON.parse(text));
      else reject(new Error(`${workload} (${role}) ended with ${signal ?? `code ${code}`} before its result was there`));
    });
  });
}
