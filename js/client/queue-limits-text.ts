// The limits of a queue as one line for people.

import { exactSpanText, parseDuration } from '../util/duration.ts';
import type { QueueLimits, QueueRate } from './queue-limits.ts';

/** Formats limits: `20 at once, 5 a worker, 50 in 1s, 2 at once of a key, keys in turn`. */
export function limitsText({ concurrency, perWorker, rate, perKey = {}, fairness }: QueueLimits): string {
  const parts: string[] = [];
  if (concurrency !== undefined) parts.push(`${concurrency} at once`);
  if (perWorker !== undefined) parts.push(`${perWorker} a worker`);
  if (rate !== undefined) parts.push(rateText(rate));
  if (perKey.concurrency !== undefined) parts.push(`${perKey.concurrency} at once of a key`);
  if (perKey.rate !== undefined) parts.push(`${rateText(perKey.rate)} of a key`);
  if (fairness === 'key') parts.push('keys in turn');
  return parts.length === 0 ? 'none' : parts.join(', ');
}

function rateText({ limit, per }: QueueRate): string {
  return `${limit} in ${exactSpanText(parseDuration(per, 'per'))}`;
}
