// Codecs with real encryption for tests. Each text is bound to its context, and names its key.

import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';

export function keyRing(...names) {
  const keys = new Map(names.map((name) => [name, createHash('sha256').update(name).digest()]));
  const [current] = names;
  return {
    encode(text, { aad }) {
      const nonce = randomBytes(12);
      const cipher = createCipheriv('aes-256-gcm', keys.get(current), nonce).setAAD(Buffer.from(aad));
      const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
      return { text: Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64'), keyId: current };
    },
    decode(text, { aad, keyId }) {
      const key = keys.get(keyId ?? '');
      if (key === undefined) throw new Error(`there is no key '${keyId}'`);
      const bytes = Buffer.from(text, 'base64');
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12))
        .setAAD(Buffer.from(aad))
        .setAuthTag(bytes.subarray(12, 28));
      return decipher.update(bytes.subarray(28), undefined, 'utf8') + decipher.final('utf8');
    },
  };
}
