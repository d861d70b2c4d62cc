/** Perdure's errors, and errors as data for the store. */

export * from './error-classes.ts';
export {
  decodeError,
  decodeThrown,
  encodeError,
  type ErrorData,
  fromNative,
  type NativeErrorData,
} from './error-data.ts';
