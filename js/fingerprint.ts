// Fingerprints of code: whether what a worker runs under a name is what another one ran.

import { createHash } from 'node:crypto';

/** Characters of a fingerprint: 64 bits as hex. */
const LENGTH = 16;

/** The fingerprint of a function's own text, and of nothing that it calls. It is stored. */
export function fingerprintOf(fn: Function): string {
  return createHash('sha256').update(Function.prototype.toString.call(fn)).digest('hex').slice(0, LENGTH);
}
