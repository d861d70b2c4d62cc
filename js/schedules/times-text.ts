// The due times of a schedule, as a text for people.

import { exactSpanText } from '../util/duration.ts';
import type { Times } from './times.ts';

/** Formats the times of a schedule: `0 2 * * * Europe/Berlin`, `every 10m`, `3 dates`. */
export function timesText(times: Times): string {
  switch (times.kind) {
    case 'cron':
      return `${times.cron} ${times.timeZone}`;
    case 'every': {
      const offset = times.offsetMs === 0 ? '' : ` + ${exactSpanText(times.offsetMs)}`;
      return `every ${exactSpanText(times.everyMs)}${offset}`;
    }
    case 'at':
      return times.atMs.length === 1 ? '1 date' : `${times.atMs.length} dates`;
    default:
      return times satisfies never;
  }
}
