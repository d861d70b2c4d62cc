// Fingerprints of code: whether what a worker runs under a name is what another one ran.

/** Characters of a fingerprint: 64 bits as hex. */
const LENGTH = 16;

/** The fingerprint of a function's own text, and of nothing that it calls. It is stored. */
export function fingerprintOf(fn: Function): string {
  // Not by an import: `node:crypto` takes a third of the time in which Perdure is loaded, and is needed when it is used.
  const { createHash } = process.getBuiltinModule('node:crypto');
  return createHash('sha256').update(Function.prototype.toString.call(fn)).digest('hex').slice(0, LENGTH);
}
