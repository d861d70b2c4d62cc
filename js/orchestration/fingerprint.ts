// Fingerprints of code: they tell if one worker runs the same code under a name as another worker ran.

/** Length of a fingerprint in characters: 64 bits as hex. */
const LENGTH = 16;

/** Returns the fingerprint of functions' own texts, without the functions that they call. The fingerprint is stored. */
export function fingerprintOf(...functions: readonly Function[]): string {
  // Not imported: `node:crypto` takes a third of the time in which Perdure is loaded, and is needed only when it is
  // used.
  const { createHash } = process.getBuiltinModule('node:crypto');
  const texts = functions.map((fn) => Function.prototype.toString.call(fn)).join('\n');
  return createHash('sha256').update(texts).digest('hex').slice(0, LENGTH);
}
