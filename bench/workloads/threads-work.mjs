// What the threads of the workload `threads` run: each loads this module. It needs nothing of Perdure, so that a bare
// process can do the same work.

import { pbkdf2Sync } from 'node:crypto';

/** So many rounds of HMAC-SHA-256, in one call: threads of one process that make thousands of short ones slow each other down. */
export function hash(rounds) {
  return pbkdf2Sync('perdure', 'bench', rounds, 32, 'sha256').toString('hex');
}

/** What an instance of so many activities ends with, when each has found the same. */
export function outputOf(activities, digest) {
  return `${activities} × ${digest}`;
}

export default function register(runtime) {
  runtime.registerActivity('hash', (_ctx, rounds) => hash(rounds));
  runtime.registerOrchestration('hashes', function* (ctx, { activities, rounds }) {
    const digests = yield* ctx.all(Array.from({ length: activities }, () => ctx.scheduleActivity('hash', rounds)));
    return outputOf(digests.length, [...new Set(digests)].join());
  });
}
