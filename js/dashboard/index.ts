/** The dashboard: shows the contents and the activity of a store in a browser. */

export type { Caller } from './guard.ts';
export { type DashboardHandler, dashboardHandler } from './handler.ts';
export type { DashboardAction, DashboardOptions, ValuePlace } from './options.ts';
export { nodeListener, type ServedDashboard, type ServeOptions, serveDashboard } from './server.ts';
