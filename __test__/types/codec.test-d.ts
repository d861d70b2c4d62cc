import {
  type AsyncCodec,
  type Codec,
  type CodecContext,
  type DecodeContext,
  type EncodedText,
  SqliteProvider,
} from 'perdure';
import { describe, expectTypeOf, it } from 'vitest';

describe('a codec', () => {
  it('may look at its text alone', () => {
    expectTypeOf<{ encode(text: string): string; decode(text: string): string }>().toExtend<Codec>();
    expectTypeOf(SqliteProvider.inMemory).toBeCallableWith({
      codec: { encode: (text) => text, decode: (text) => text },
    });
  });

  it('is told whose value it is, and which key it named', () => {
    const codec: Codec = {
      required: true,
      encode(text, context) {
        expectTypeOf(text).toEqualTypeOf<string>();
        expectTypeOf(context).toEqualTypeOf<CodecContext>();
        expectTypeOf(context.execution).toEqualTypeOf<number | null>();
        return { text: context.aad + text, keyId: 'key' };
      },
      decode(text, context) {
        expectTypeOf(context).toEqualTypeOf<DecodeContext>();
        expectTypeOf(context.keyId).toEqualTypeOf<string | null>();
        return text;
      },
    };
    expectTypeOf(codec.required).toEqualTypeOf<boolean | undefined>();
    expectTypeOf<EncodedText>().toEqualTypeOf<{ readonly text: string; readonly keyId: string }>();
  });

  it('names no key but a text', () => {
    // @ts-expect-error: a number
    const codec: Codec = { encode: (text) => ({ text, keyId: 1 }), decode: (text) => text };
    void codec;
    // @ts-expect-error: neither
    const other: Codec = { encode: () => 1, decode: (text) => text };
    void other;
  });

  it('may answer later where it says so', () => {
    const codec: AsyncCodec = {
      async: true,
      encode: async (text, { aad }) => ({ text: aad + text, keyId: 'key' }),
      decode: async (text) => text,
    };
    expectTypeOf(SqliteProvider.inMemory).toBeCallableWith({ codec });
    // @ts-expect-error: it does not say so
    const other: Codec = { encode: async (text: string) => text, decode: (text) => text };
    void other;
    // @ts-expect-error: a number
    const wrong: AsyncCodec = { async: true, encode: async () => 1, decode: async (text) => text };
    void wrong;
  });
});
