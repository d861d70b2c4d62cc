// Access control: decides from the request and, if the server passes it, the client's address.
//
// G1  The host in the URL, and in the Host header if there is one, is of this machine or in `allowedHosts`: a page of
//     another site cannot reach the dashboard under a name of its own (DNS rebinding).
// G2  There is a token: a given one, or one that is made. `token: false` means no token. Then `authorize` decides or,
//     without one, a request must come from this machine: by its host, by the address of its connection, and by the
//     headers of proxies. If that address is not known, every request is refused, since a Host header can say anything.
//     A proxy on this machine that sends no such headers looks like this machine.
// G3  If there is a token, every request needs it, except for the files of the page, which hold no data.
// G4  Another site cannot make a browser send requests on its behalf: Origin and Sec-Fetch-Site must be of this site. A
//     request that changes something also needs a header and a content type that no form can send.
// G5  Secret texts are compared by digest, in constant time.

import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';

import type { DashboardOptions } from './options.ts';
import { Refusal } from './refusal.ts';

/** Facts about the client that the server knows besides the request. */
export interface Caller {
  /** IP address of the connection. Without it, no request counts as coming from this machine. */
  remoteAddress?: string;
  /** Path that a server such as Express has mounted the handler at, for the message about a wrong `basePath`. */
  mountPath?: string;
}

/** A header that every action needs and that pages of other sites cannot send. */
export const ACTION_HEADER = 'x-perdure-dashboard';

/** Time for which a browser stays signed in, s. */
const SIGNED_IN_S = 30 * 24 * 60 * 60;

/** Headers by which a proxy names its client, or shows that it is there. */
const FORWARDED = /^(x-forwarded-.*|x-real-ip|x-client-ip|true-client-ip|cf-connecting-ip|forwarded|via)$/;

export class Guard {
  readonly #hosts: readonly string[];
  readonly #token: Buffer | undefined;
  readonly #isOpen: boolean;
  /** Cookie of a signed-in browser. Its value is derived from the token, and the token cannot be recovered from it. */
  readonly #cookie: { name: string; value: string } | undefined;

  /** `token` is the given one, or else the one that was made. */
  constructor({ allowedHosts = [], authorize }: DashboardOptions, token: string | false) {
    this.#hosts = allowedHosts.map((host) => (isIP(host) === 6 ? `[${host.toLowerCase()}]` : host.toLowerCase()));
    this.#isOpen = token === false && authorize !== undefined;
    if (token === false) return;
    this.#token = digest(token);
    const value = createHmac('sha256', token).update('perdure dashboard cookie').digest('base64url');
    // Cookies do not distinguish ports, so two dashboards on one machine need cookies with different names.
    this.#cookie = { name: `perdure_${digest(value).toString('hex').slice(0, 12)}`, value };
  }

  /** Checks G1, G2 and G4, for every request. */
  checkOrigin(request: Request, url: URL, caller: Caller, isPage: boolean): void {
    const named = request.headers.get('host');
    const hosts = [url.host, ...(named === null ? [] : [hostOf(named)])];
    for (const host of hosts) {
      if (host === undefined || !(this.#isAllowed(host) || isLocalName(host))) {
        throw new Refusal(
          403,
          'HOST',
          'the dashboard does not allow this host name: add it to the option `allowedHosts`',
        );
      }
    }
    const isLocal = hosts.every((host) => host !== undefined && isLocalName(host)) && comesFromHere(request, caller);
    if (!isLocal && this.#token === undefined && !this.#isOpen) {
      const why =
        caller.remoteAddress === undefined ? ', and the server does not tell where this request comes from' : '';
      throw new Refusal(
        403,
        'TOKEN_NEEDED',
        `with \`token: false\` the dashboard answers only requests from this machine${why}`,
      );
    }
    const site = request.headers.get('sec-fetch-site');
    const isForeign = site !== null && site !== 'same-origin' && site !== 'none';
    // A link on another site may lead to the page.
    const isVisit = isPage && request.headers.get('sec-fetch-mode') === 'navigate';
    if (isForeign && !isVisit) throw new Refusal(403, 'CROSS_SITE', 'cross-site requests are not allowed');
    const origin = request.headers.get('origin');
    if (origin !== null && !(URL.canParse(origin) && hosts.includes(new URL(origin).host))) {
      throw new Refusal(403, 'ORIGIN', 'requests from other origins are not allowed');
    }
  }

  /** Checks the rest of G4, for an action. */
  checkAction(request: Request): void {
    if (request.headers.get(ACTION_HEADER) !== '1')
      throw new Refusal(403, 'ACTION_HEADER', `an action needs the header ${ACTION_HEADER}: 1`);
    const [type = ''] = (request.headers.get('content-type') ?? '').split(';');
    if (type.trim().toLowerCase() !== 'application/json')
      throw new Refusal(415, 'CONTENT_TYPE', 'an action needs a body of type application/json');
  }

  /** Checks G3, by header or cookie. */
  checkToken(request: Request): void {
    if (this.#token === undefined || this.#cookie === undefined) return;
    const [, bearer] = /^bearer +(\S+)$/i.exec(request.headers.get('authorization') ?? '') ?? [];
    if (bearer !== undefined && this.isToken(bearer)) return;
    const { name, value } = this.#cookie;
    const wanted = digest(value);
    for (const part of (request.headers.get('cookie') ?? '').split(';')) {
      const at = part.indexOf('=');
      if (at >= 0 && part.slice(0, at).trim() === name && timingSafeEqual(digest(part.slice(at + 1).trim()), wanted))
        return;
    }
    throw new Refusal(401, 'TOKEN', 'the token is missing or wrong', { 'www-authenticate': 'Bearer realm="perdure"' });
  }

  /** True if `text` is the token; always false without a token. */
  isToken(text: string): boolean {
    return this.#token !== undefined && timingSafeEqual(digest(text), this.#token);
  }

  /** Returns the `Set-Cookie` header that signs a browser in. */
  cookie(request: Request, url: URL, path: string): string {
    const { name, value } = this.#cookie ?? { name: '', value: '' };
    const isTls = url.protocol === 'https:' || request.headers.get('x-forwarded-proto') === 'https';
    const secure = isTls ? '; Secure' : '';
    return `${name}=${value}; Path=${path}; Max-Age=${SIGNED_IN_S}; HttpOnly; SameSite=Strict${secure}`;
  }

  #isAllowed(host: string): boolean {
    return this.#hosts.includes(host) || this.#hosts.includes(nameIn(host));
  }
}

function comesFromHere(request: Request, { remoteAddress }: Caller): boolean {
  if (remoteAddress === undefined || !isLocalAddress(remoteAddress)) return false;
  return [...request.headers].every(([header, said]) => {
    if (!FORWARDED.test(header)) return true;
    // `Forwarded` has a grammar of its own, and `Via` says only that there is a proxy. A request with either needs a
    // token.
    return header !== 'forwarded' && header !== 'via' && said.split(',').every((one) => isLocalHost(one.trim()));
  });
}

/** Returns a random token for a dashboard that was given none. */
export function makeToken(): string {
  return randomBytes(24).toString('base64url');
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** Returns the host of a Host header in the form that a URL has; `undefined` when the header is invalid. */
function hostOf(header: string): string | undefined {
  const text = `http://${header}`;
  if (!URL.canParse(text)) return undefined;
  const { host, pathname, search, username, hash } = new URL(text);
  return pathname === '/' && !/[/?#@\\]/.test(header) && `${search}${username}${hash}` === '' ? host : undefined;
}

/** Returns the host without its port. */
function nameIn(host: string): string {
  return host.replace(/:\d+$/, '');
}

/** True for `localhost`, names that end with it, and loopback addresses: none of them leads to another machine. */
function isLocalName(host: string): boolean {
  const name = nameIn(host);
  return name === 'localhost' || name.endsWith('.localhost') || isLocalAddress(name.replace(/^\[|\]$/g, ''));
}

/** True if an address or a name, in any case, does not lead to another machine. */
export function isLocalHost(host: string): boolean {
  return isLocalAddress(host) || isLocalName(host.toLowerCase());
}

function isLocalAddress(address: string): boolean {
  const plain = address.toLowerCase().replace(/^::ffff:/, '');
  return plain === '::1' || (isIP(plain) === 4 && plain.startsWith('127.'));
}
