import { setImmediate as immediate } from 'node:timers/promises';
import type { AsyncCodec, Codec } from 'perdure';

/** Returns a codec that does the same and answers later. */
export function delayed(codec: Codec): AsyncCodec {
  return {
    async: true,
    ...(codec.required === undefined ? {} : { required: codec.required }),
    async encode(text, context) {
      await immediate();
      return codec.encode(text, context);
    },
    async decode(text, context) {
      await immediate();
      return codec.decode(text, context);
    },
  };
}

/** Both ways in which a codec may answer. */
export const WAYS: readonly { way: string; of(codec: Codec): AsyncCodec | Codec }[] = [
  { way: 'at once', of: (codec) => codec },
  { way: 'later', of: delayed },
];
