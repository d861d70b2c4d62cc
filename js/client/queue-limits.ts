// The limits of a queue: as users give them, and as the store keeps them.

import type { QueueSettings } from '../binding/store.ts';
import { type Duration, parseDuration } from '../util/duration.ts';
import { checkOptions, nested, type OptionTable, oneOf } from '../util/options.ts';
import { property, show } from '../util/show.ts';

/** A rate: in any span of `per`, at most `limit` slots are given. They may all be given at once, as a burst. */
export interface QueueRate {
  /** 1 to 1 000 000. */
  limit: number;
  /** 1 ms to 366 days. */
  per: Duration;
}

/** The limits of each key of a queue. */
export interface KeyLimits {
  /** The most slots that one key has at the same time, 1 to 1 000 000. Default: no limit. */
  concurrency?: number;
  /** The most slots that one key gets in a span of time. Default: no limit. */
  rate?: QueueRate;
}

/**
 * The limits of a queue. They hold over all workers of the store, for instances that are started in it and for attempts
 * of activities that name it, both together.
 *
 * An instance that is started in a queue waits, as Pending, until it has a slot. It has its slot from its first turn to
 * its end, also while it sleeps, waits or is suspended, over `continueAsNew` and over crashes of its workers. Instances
 * wait in order of their priority; then the keys take turns, with `fairness: 'key'`; then the first come is the first.
 * A start time that has not come (`delay`, `startAt`) keeps an instance out of the line.
 *
 * An attempt of an activity waits in the same line, and has its slot until it has ended. It has none between two
 * attempts. The limits hold for attempts that are scheduled after the queue was set first. A limit of the queue
 * `'default'` holds for instances only.
 */
export interface QueueLimits {
  /** The most slots that are taken at the same time, 1 to 1 000 000. Default: no limit. */
  concurrency?: number;
  /**
   * The number of running instances and attempts of the queue with which a worker takes no new one, 1 to 1 000 000. A
   * worker that takes over from a dead one may own more. Default: no limit.
   */
  perWorker?: number;
  /** The most slots that are given in a span of time. Default: no limit. */
  rate?: QueueRate;
  /** The limits of each key. They do not concern what has no key. Default: none. */
  perKey?: KeyLimits;
  /**
   * `'key'`: among the waiting ones of one priority, the keys take turns, so a key with many of them does not hold up
   * the others. It holds for those that come into line after it is set. Default `'none'`.
   */
  fairness?: 'key' | 'none';
}

/** The highest number that a limit may have. */
const LIMIT_MAX = 1_000_000;

/** The longest span of a rate. */
const PER_MAX = '366d';
const PER_MAX_MS = parseDuration(PER_MAX, 'per');

function limit(value: unknown, path: string, hintBelowOne = 'leave it out for no limit'): void {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= LIMIT_MAX) return;
  const isBelowOne = typeof value === 'number' && value > 0 && value < 1;
  const hint = isBelowOne
    ? hintBelowOne
    : value === 0
      ? 'a limit cannot stop a queue. Leave it out for no limit'
      : 'leave it out for no limit';
  throw new TypeError(`${path} must be a whole number from 1 to ${LIMIT_MAX}, got ${show(value)}: ${hint}`);
}

function per(value: unknown, path: string): void {
  const ms = parseDuration(value, path);
  if (ms < 1 || ms > PER_MAX_MS) throw new TypeError(`${path} must be from '1ms' to '${PER_MAX}', got ${show(value)}`);
}

const RATE = {
  limit: (value, path) =>
    limit(value, path, "for less than one in a span use a longer span, as { limit: 1, per: '10d' }"),
  per,
} satisfies OptionTable;

function rate(value: unknown, path: string): void {
  nested(RATE)(value, path);
  for (const name of Object.keys(RATE))
    if (property(value, name) === undefined)
      throw new TypeError(`${path} must have limit and per, such as { limit: 50, per: '1s' }`);
}

/** The checks of {@link QueueLimits}. */
const LIMITS = {
  concurrency: limit,
  perWorker: limit,
  rate,
  perKey: nested({ concurrency: limit, rate }),
  fairness: oneOf('key', 'none'),
} satisfies OptionTable;

/**
 * Returns limits as the store keeps them.
 *
 * @param where - the begin of the error: `client.queues.set`
 * @throws TypeError naming the limit that is unknown or wrong
 */
export function settingsOf(limits: QueueLimits, where: string): QueueSettings {
  if (limits === undefined) throw new TypeError(`${where}: the limits are missing; {} is a queue without limits`);
  const { concurrency, perWorker, rate, perKey, fairness } = checkOptions(limits, LIMITS, where);
  return {
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(perWorker === undefined ? {} : { perWorker }),
    ...(rate === undefined ? {} : { rate: pairOf(rate) }),
    ...(perKey?.concurrency === undefined ? {} : { keyConcurrency: perKey.concurrency }),
    ...(perKey?.rate === undefined ? {} : { keyRate: pairOf(perKey.rate) }),
    ...(fairness === 'key' ? { fair: true } : {}),
  };
}

function pairOf({ limit, per }: QueueRate): readonly [number, number] {
  return [limit, parseDuration(per, 'per')];
}

/** Returns the limits that the store keeps. A span of time is in ms. */
export function limitsOf({ concurrency, perWorker, rate, keyConcurrency, keyRate, fair }: QueueSettings): QueueLimits {
  const perKey: KeyLimits = {
    ...(keyConcurrency === undefined ? {} : { concurrency: keyConcurrency }),
    ...(keyRate === undefined ? {} : { rate: rateOf(keyRate) }),
  };
  return {
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(perWorker === undefined ? {} : { perWorker }),
    ...(rate === undefined ? {} : { rate: rateOf(rate) }),
    ...(Object.keys(perKey).length === 0 ? {} : { perKey }),
    ...(fair === true ? { fairness: 'key' } : {}),
  };
}

function rateOf([limit, per]: readonly [number, number]): QueueRate {
  return { limit, per };
}
