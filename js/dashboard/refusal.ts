// Refused requests: an HTTP status, a stable code, and a sentence.

import { PayloadError, PerdureError } from '../errors/errors.ts';
import { isList, isRecord } from '../util/show.ts';
import type { ErrorAnswer, InputIssue } from './answers.ts';

/** Thrown when a request is refused or cannot be answered. */
export class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The problems of an input that does not fit its schema. */
  readonly issues: readonly InputIssue[];

  constructor(
    status: number,
    code: string,
    message: string,
    headers: Readonly<Record<string, string>> = {},
    issues: readonly InputIssue[] = [],
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.headers = headers;
    this.issues = issues;
  }
}

export function badRequest(message: string): Refusal {
  return new Refusal(400, 'BAD_REQUEST', message);
}

/** HTTP statuses of the client's errors, by their codes. */
const STATUS_OF: Readonly<Record<string, number>> = {
  ARGUMENT: 400,
  INSTANCE_NOT_FOUND: 404,
  QUEUE_NOT_FOUND: 404,
  INSTANCE_EXISTS: 409,
  NOT_REGISTERED: 409,
  RUNTIME_STATE: 409,
  LIMIT: 409,
  PAYLOAD: 422,
  PROVIDER: 503,
};

/** Returns the refusal for an error; `undefined` for an unexpected error. */
export function refusalOf(error: unknown): Refusal | undefined {
  if (error instanceof Refusal) return error;
  if (error instanceof PerdureError)
    return new Refusal(STATUS_OF[error.code] ?? 500, error.code, error.message, {}, issuesOf(error));
  return undefined;
}

function issuesOf(error: PerdureError): InputIssue[] {
  if (!(error instanceof PayloadError) || !isList(error.cause)) return [];
  return error.cause.filter(
    (issue): issue is InputIssue =>
      isRecord(issue) && typeof (issue as Partial<InputIssue>).path === 'string' && 'message' in issue,
  );
}

export function answerOf({ code, message, issues }: Refusal): ErrorAnswer {
  return { error: { code, message, ...(issues.length === 0 ? {} : { issues }) } };
}
