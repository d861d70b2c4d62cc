// The route of the page. It is kept behind the # of the URL, so that the page is one file under any base path, and an
// id may be any text.

import { useEffect, useState } from 'preact/hooks';

const PAGES = [
  'overview',
  'instances',
  'instance',
  'orchestrations',
  'schedules',
  'schedule',
  'queues',
  'tokens',
  'locks',
  'workers',
] as const;

export interface Route {
  readonly page: (typeof PAGES)[number];
  readonly params: URLSearchParams;
}

export function routeOf(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s, 2);
  const page = PAGES.find((page) => page === path) ?? 'overview';
  return { page, params: new URLSearchParams(query) };
}

type Params = Readonly<Record<string, string | number | readonly string[] | undefined>>;

/** Returns the `href` of a route. */
export function linkTo(page: Route['page'], params: Params = {}): string {
  const query = queryOf(params);
  return `#/${page === 'overview' ? '' : page}${query === '' ? '' : `?${query}`}`;
}

/** Returns parameters as a query string, without those that are `undefined` or empty. */
export function queryOf(params: Params): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const one of Array.isArray(value) ? (value as readonly string[]) : [value as string | number | undefined]) {
      if (one !== undefined && one !== '') query.append(name, String(one));
    }
  }
  return query.toString();
}

export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = (): void => setHash(location.hash);
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return routeOf(hash);
}
