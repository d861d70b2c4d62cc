import type { CodecContext, DecodeContext, EncodedText } from 'perdure';

/** A codec that answers at once. */
export interface KeyRing {
  readonly required?: boolean;
  encode(text: string, context: CodecContext): EncodedText;
  decode(text: string, context: DecodeContext): string;
}

/**
 * AES-256-GCM over the keys of these names, which writes with the first of them. The same names give the same keys in
 * every process.
 */
export function keyRing(...names: readonly [string, ...string[]]): KeyRing;
