// Fingerprints of code: they tell if one worker runs the same code under a name as another worker ran.

/** Length of a fingerprint in characters: 64 bits as hex. */
const LENGTH = 16;

/** Returns the fingerprint of a function's own text, without the functions that it calls. The fingerprint is stored. */
export function fingerprintOf(fn: Function): string {
  // Not imported: `node:crypto` takes a third of the time in which Perdure is loaded, and is needed only when it is
  // used.
  const { createHash } = process.getBuiltinModule('node:crypto');
  return createHash('sha256').update(Function.prototype.toString.call(fn)).digest('hex').slice(0, LENGTH);
}
