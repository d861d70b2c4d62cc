// The codes of an error, by which retry policies know it besides its name.

/** An error, or its data. */
interface Coded {
  readonly code?: unknown;
  readonly cause?: unknown;
}

/**
 * Returns the code of an error and that of its direct cause, as text. `fetch` and other wrappers keep the code of the
 * connection in the cause.
 */
export function codesOf(error: Coded): string[] {
  const { cause } = error;
  const coded = typeof cause === 'object' && cause !== null ? [error, cause as Coded] : [error];
  return coded.flatMap(({ code }) => (typeof code === 'string' || typeof code === 'number' ? [String(code)] : []));
}
