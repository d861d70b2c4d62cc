// The dashboard of a test's store: as a handler that is asked, and as a page that is served until the test ends.

import { type DashboardOptions, dashboardHandler, type ServeOptions, serveDashboard } from 'perdure/dashboard';
import { onTestFinished } from 'vitest';

import type { TestStore } from '../support/store.ts';
import { Asker } from './ask.ts';

export interface Serving {
  /** Returns the handler of a dashboard that needs no token. */
  asker(options?: DashboardOptions): Asker;
  /** Serves a dashboard. Returns the URL of its page. */
  served(options?: ServeOptions): Promise<string>;
}

export function serving(store: TestStore): Serving {
  return {
    asker: (options = {}) => new Asker(dashboardHandler(store.client, { token: false, ...options })),
    async served(options = {}) {
      const dashboard = await serveDashboard(store.client, options);
      onTestFinished(() => dashboard.close());
      return dashboard.url;
    },
  };
}

/** Returns the URL of the page of an instance. */
export function at(url: string, id: string): string {
  return `${url}#/instance?id=${encodeURIComponent(id)}`;
}
