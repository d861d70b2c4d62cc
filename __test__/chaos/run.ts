// A run: rounds until the time is over, and the sums over them.

import { COUNTS, type Promotion, type Tally } from './arena.ts';
import { Dice } from './dice.ts';
import { FAULTS, type Fault } from './faults/index.ts';
import { playRound, type RoundOptions, type RoundResult, type Violations } from './round.ts';
import type { Ground, ProviderName } from './sites.ts';

export interface RunOptions {
  readonly provider: ProviderName;
  /** The seed of the first round. Later rounds count up from it. */
  readonly seed: number;
  /** Names of faults. If they are absent, all faults strike. */
  readonly faults?: readonly string[] | undefined;
  readonly workers: number;
  /** Minutes in which new rounds begin. At least one round runs on each ground, so that each fault strikes. */
  readonly minutes: number;
  /** True if each fault strikes exactly once, in the round on its ground. */
  readonly isShort: boolean;
  /** Called after each round. If it returns true, no further round begins. */
  readonly onRound?: (result: RoundResult) => boolean;
}

export interface Report {
  readonly options: RunOptions;
  readonly rounds: readonly RoundResult[];
  /** Sums over the rounds. */
  readonly tally: Tally;
  /** The number of times that each fault has struck. */
  readonly struck: ReadonlyMap<string, number>;
  readonly skipped: readonly { readonly fault: string; readonly why: string }[];
  readonly violations: Violations;
  /** The reasons for which the run failed. Empty if all has held. */
  readonly failures: readonly string[];
  readonly ms: number;
}

const GROUNDS: readonly Ground[] = ['disk', 'tmpfs', 'ext4', 'pair'];

/** The least number of faults in a round that is not short. */
const FAULTS_MIN = 4;

/**
 * Limits from the order to promote a standby until all workers, and the client, have written there. A worker renews its
 * lease in any case. A client may notice only at its second statement that takes too long: the first one waits for a
 * lock of a process whose commit hangs and that leaves earlier.
 */
const PROMOTION_MAX: Promotion = { workersMs: 5_000, clientMs: 10_000 };

/** The limits of a short run, which is one of the tests: the machine does other things beside it. */
const PROMOTION_SHORT_MAX: Promotion = { workersMs: 20_000, clientMs: 20_000 };

/** Share of programs that must have ended. */
const FINISHED_MIN = 0.95;

export async function run(options: RunOptions): Promise<Report> {
  const { provider, seed, workers, minutes, isShort, onRound } = options;
  const wanted = FAULTS.filter(
    ({ name, providers }) => providers.includes(provider) && (options.faults?.includes(name) ?? true),
  );
  const possible = wanted.filter(({ missing }) => missing === undefined);
  const grounds = GROUNDS.filter((ground) => possible.some((fault) => (fault.ground ?? 'disk') === ground));
  if (grounds.length === 0) throw new Error('none of these faults can be done here');
  const begun = Date.now();
  const rounds: RoundResult[] = [];
  for (let i = 0; i < grounds.length || Date.now() < begun + minutes * 60_000; i += 1) {
    const ground = grounds[(seed + i) % grounds.length] as Ground;
    const round: RoundOptions = {
      provider,
      workers,
      seed: seed + i,
      ground,
      isShort,
      faults: planOf(possible, ground, seed + i, isShort),
    };
    const result = await playRound(round);
    rounds.push(result);
    if (onRound?.(result)) break;
  }
  const skipped = wanted.flatMap(({ name, missing }) => (missing === undefined ? [] : [{ fault: name, why: missing }]));
  return summarize(
    options,
    rounds,
    skipped,
    possible.map(({ name }) => name),
    Date.now() - begun,
  );
}

/**
 * Plans the faults of a round: those that need the ground, twice, and then some that need none. On the ground `disk`
 * all of the latter strike.
 */
function planOf(possible: readonly Fault[], ground: Ground, seed: number, isShort: boolean): Fault[] {
  const dice = new Dice(seed, -2);
  const own = possible.filter((fault) => fault.ground === ground);
  const common = possible.filter((fault) => fault.ground === undefined);
  // There is no proxy between the workers and the two servers, and a restarted server is no failover.
  if (ground === 'pair') return dice.shuffled(own);
  if (isShort) return dice.shuffled(ground === 'disk' ? common : own);
  const planned = ground === 'disk' ? [...common] : [...own, ...own, ...dice.shuffled(common).slice(0, 2)];
  while (planned.length < FAULTS_MIN) planned.push(dice.pick(planned));
  return dice.shuffled(planned);
}

/** Sums up the rounds, and decides whether the run succeeded. `planned` are the names of faults that were to strike. */
export function summarize(
  options: RunOptions,
  rounds: readonly RoundResult[],
  skipped: Report['skipped'],
  planned: readonly string[],
  ms: number,
): Report {
  const tally: Tally = {};
  for (const name of COUNTS) {
    const sum = rounds.reduce((total, round) => total + (round.tally[name] ?? 0), 0);
    if (sum > 0) tally[name] = sum;
  }
  const all = rounds.flatMap(({ struck }) => struck.map(({ fault }) => fault));
  const struck = new Map(planned.map((name) => [name, all.filter((other) => other === name).length]));
  const found = (kind: keyof Violations) =>
    rounds.flatMap((round) => round.violations[kind].map((violation) => `seed ${round.options.seed}: ${violation}`));
  const violations: Violations = {
    lost: found('lost'),
    stuck: found('stuck'),
    repeated: found('repeated'),
    other: found('other'),
  };
  const { programs = 0, finished = 0, zombies = 0, stalls = 0 } = tally;
  const failures = Object.values(violations).flat();
  for (const [name, times] of struck)
    if (times === 0) failures.push(`the fault '${name}' was planned and never struck`);
  const most = options.isShort ? PROMOTION_SHORT_MAX : PROMOTION_MAX;
  for (const { workersMs, clientMs } of rounds.flatMap(({ promotions }) => promotions)) {
    if (workersMs > most.workersMs)
      failures.push(
        `${workersMs} ms passed from a promotion until all workers had written there, and ${most.workersMs} may`,
      );
    if (clientMs > most.clientMs)
      failures.push(
        `${clientMs} ms passed from a promotion until the client had written there, and ${most.clientMs} may`,
      );
  }
  if (programs === 0 || finished < FINISHED_MIN * programs)
    failures.push(`${finished} of ${programs} programs have ended`);
  if (zombies + stalls > 0 && tally['stale writes rejected'] === undefined) {
    failures.push('workers were stopped beyond their lease, and nothing stale was rejected');
  }
  return { options, rounds, tally, struck, skipped, violations, failures, ms };
}
