// Requests to the server, and event streams.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

import type { ActionAnswer, ActionBodies, ChangingAction, ErrorAnswer, InputIssue } from '../answers.ts';

/** A refused request. */
export class RequestError extends Error {
  readonly status: number;
  readonly code: string;
  /** Problems of an input that does not fit its schema. */
  readonly issues: readonly InputIssue[];

  constructor(status: number, code: string, message: string, issues: readonly InputIssue[] = []) {
    super(message);
    this.status = status;
    this.code = code;
    this.issues = issues;
  }
}

async function ask<T>(path: string, init: RequestInit): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, { ...init, credentials: 'same-origin', redirect: 'error' });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new RequestError(0, 'UNREACHABLE', 'The server does not respond.');
  }
  const body = (await response.json().catch(() => null)) as (T & Partial<ErrorAnswer>) | null;
  if (response.ok && body !== null) return body;
  const {
    code = 'UNKNOWN',
    message = `The server responded with status ${response.status}.`,
    issues = [],
  }: Partial<ErrorAnswer['error']> = body?.error ?? {};
  if (response.status === 401) dispatchEvent(new Event('signedout'));
  throw new RequestError(response.status, code, message, issues);
}

export function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return ask(`api/v1/${path}`, signal === undefined ? {} : { signal });
}

export function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const headers = { 'content-type': 'application/json', 'x-perdure-dashboard': '1' };
  const init = { method: 'POST', headers, body: JSON.stringify(body) };
  return ask(`api/v1/${path}`, signal === undefined ? init : { ...init, signal });
}

export function act<A extends ChangingAction>(action: A, body: ActionBodies[A]): Promise<ActionAnswer> {
  return post(action, body);
}

export function signIn(token: string): Promise<unknown> {
  return post('session', { token });
}

/** The state of a request. The last answer stays until the next one arrives. */
export interface RequestState<T> {
  readonly answer: T | undefined;
  readonly error: RequestError | undefined;
  readonly isLoading: boolean;
  reload(): void;
}

/** Sends a request when the path changes, and at each reload. Without a path none is sent. */
export function useAnswer<T>(path: string | undefined): RequestState<T> {
  const [state, setState] = useState<{ path?: string; answer?: T; error?: RequestError; isLoading: boolean }>({
    isLoading: true,
  });
  const asking = useRef<AbortController | undefined>(undefined);
  const reload = useCallback(() => {
    asking.current?.abort();
    if (path === undefined) return;
    const { signal } = (asking.current = new AbortController());
    setState((was) => ({ ...was, isLoading: true }));
    get<T>(path, signal).then(
      (answer) => signal.aborted || setState({ path, answer, isLoading: false }),
      (error: RequestError) => signal.aborted || setState({ path, error, isLoading: false }),
    );
  }, [path]);
  useEffect(() => {
    reload();
    return () => asking.current?.abort();
  }, [reload]);
  return {
    answer: state.answer,
    error: state.path === path ? state.error : undefined,
    isLoading: state.isLoading || state.path !== path,
    reload,
  };
}

/** Delay before a lost stream is opened again, ms. */
const AGAIN_MS = 2_000;

/** The listeners for the events of a stream, by event name. */
type Listeners = Readonly<Record<string, (data: never) => void>>;

/**
 * Listens to a stream until the returned function is called. A lost stream is opened again, at the path of that moment.
 * While the page is hidden the stream is closed, because a browser allows few connections to a server.
 *
 * @param onLost - called with `true` when the stream is lost, and with `false` when it is open
 */
export function listen(pathNow: () => string, listeners: Listeners, onLost: (isLost: boolean) => void): () => void {
  let source: EventSource | undefined;
  let timer: number | undefined;
  let isOver = false;
  const stop = (): void => {
    window.clearTimeout(timer);
    source?.close();
    source = undefined;
  };
  // A stream does not say why it was refused, and a plain request does: a user who is signed out by now is asked for
  // the token.
  const again = (): void =>
    void get('about')
      .catch(() => undefined)
      .then(() => source ?? open());
  const open = (): void => {
    stop();
    if (isOver || document.hidden) return;
    const opened = (source = new EventSource(`api/v1/${pathNow()}`));
    opened.onopen = () => onLost(false);
    opened.onerror = () => {
      if (opened !== source) return;
      onLost(true);
      stop();
      timer = window.setTimeout(again, AGAIN_MS);
    };
    for (const [name, listener] of Object.entries(listeners)) {
      opened.addEventListener(
        name,
        (event) => opened === source && listener(JSON.parse((event as MessageEvent<string>).data) as never),
      );
    }
    opened.addEventListener('end', () => {
      isOver = true;
      stop();
    });
  };
  const seen = (): void => (document.hidden ? stop() : source === undefined ? open() : undefined);
  document.addEventListener('visibilitychange', seen);
  open();
  return () => {
    isOver = true;
    document.removeEventListener('visibilitychange', seen);
    stop();
  };
}
