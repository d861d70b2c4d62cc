// Answers that are no: what HTTP calls them, a code that stays the same, and a sentence.

import { PerdureError } from '../errors/errors.ts';
import type { ErrorAnswer } from './answers.ts';

/** Thrown wherever a request cannot be answered as it asks. */
export class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, code: string, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.headers = headers;
  }
}

export function badRequest(message: string): Refusal {
  return new Refusal(400, 'BAD_REQUEST', message);
}

/** What HTTP calls the errors of a client. */
const STATUS_OF: Readonly<Record<string, number>> = {
  INSTANCE_NOT_FOUND: 404,
  INSTANCE_EXISTS: 409,
  RUNTIME_STATE: 409,
  LIMIT: 409,
  PAYLOAD: 422,
  PROVIDER: 503,
};

/** The refusal that an error is; `undefined` when it is none that was foreseen. */
export function refusalOf(error: unknown): Refusal | undefined {
  if (error instanceof Refusal) return error;
  if (error instanceof PerdureError) return new Refusal(STATUS_OF[error.code] ?? 500, error.code, error.message);
  return undefined;
}

export function answerOf({ code, message }: Refusal): ErrorAnswer {
  return { error: { code, message } };
}
