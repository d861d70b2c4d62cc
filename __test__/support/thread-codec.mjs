// The codec of a provider, for its worker threads.

export const codec = {
  encode: (text) => Buffer.from(text).toString('base64'),
  decode: (text) => Buffer.from(text, 'base64').toString(),
};
