// The work of the threads in the workload `threads`: each loads this module. It needs nothing of Perdure, so that a
// bare process can do the same work.

import { pbkdf2Sync } from 'node:crypto';

/**
 * Does `rounds` rounds of HMAC-SHA-256 in one call, because threads of one process that make thousands of short calls
 * slow each other down.
 */
export function hash(rounds) {
  return pbkdf2Sync('perdure', 'bench', rounds, 32, 'sha256').toString('hex');
}

/** The output of an instance of `activities` activities that have all found the same digest. */
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
