// Requests to a dashboard's handler, as its page makes them.

import type { Caller, DashboardHandler } from 'perdure/dashboard';

export const HOME = 'http://localhost:4700/';

/** The headers that every action must have. */
export const ACTION = { 'content-type': 'application/json', 'x-perdure-dashboard': '1' };

/** The caller of a request, unless a test names another. */
export const HERE: Caller = { remoteAddress: '127.0.0.1' };

export class Asker {
  readonly handler: DashboardHandler;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(handler: DashboardHandler, headers: Readonly<Record<string, string>> = {}) {
    this.handler = handler;
    this.#headers = headers;
  }

  ask(path: string, init: RequestInit = {}, caller = HERE): Promise<Response> {
    return this.handler(
      new Request(new URL(path, HOME), {
        ...init,
        headers: { ...this.#headers, ...(init.headers as Record<string, string>) },
      }),
      caller,
    );
  }

  /** Returns the JSON of a successful answer. */
  async get(path: string): Promise<any> {
    const response = await this.ask(`api/v1/${path}`);
    if (response.status !== 200) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response.json();
  }

  post(action: string, body: unknown, init: RequestInit = {}): Promise<Response> {
    return this.ask(`api/v1/${action}`, { method: 'POST', headers: ACTION, body: JSON.stringify(body), ...init });
  }

  /** Yields the events of a stream as they arrive, until the stream ends or the caller leaves the loop. */
  async *events(path: string): AsyncGenerator<{ event: string; data: any }, void> {
    const response = await this.ask(`api/v1/${path}`);
    if (response.status !== 200) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    const decoder = new TextDecoder();
    let text = '';
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk, { stream: true });
      for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
        const [, event, data] = /^event: (.*)\ndata: (.*)$/.exec(text.slice(0, end)) ?? [];
        text = text.slice(end + 2);
        if (event !== undefined) yield { event, data: JSON.parse(data ?? 'null') };
      }
    }
  }
}

/** Returns the status of an answer, followed by the error code if it is no success. */
export async function verdict(answer: Response | Promise<Response>): Promise<string> {
  const response = await answer;
  if (response.ok) return String(response.status);
  const text = await response.text();
  return text === ''
    ? String(response.status)
    : `${response.status} ${(JSON.parse(text) as { error: { code: string } }).error.code}`;
}
