// The command `npm run chaos`:
//
//   npm run chaos -- --provider sqlite|postgres [--minutes N] [--seed N] [--faults kill,stop,…|failover] [--workers N]
//   [--short]
//
// The seed decides everything that is random, and it is printed: `--minutes 0` with the seed of a round begins with
// that round. The run itself is not repeated by it, since processes take different courses. `--short` plans rounds as
// the tests do. The exit code is 0 if all has held, 1 if something has not, and 2 if the run cannot be done.

import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';

import { noCluster } from '../support/cluster.ts';
import { FAULTS, GROUPS } from './faults/index.ts';
import { describe, describeRound } from './report.ts';
import type { RoundResult } from './round.ts';
import { type RunOptions, run } from './run.ts';

const WORKERS = 3;

/** Parses the command line. */
function optionsOf(args: readonly string[]): RunOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      provider: { type: 'string' },
      minutes: { type: 'string', default: '1' },
      seed: { type: 'string', default: String(randomInt(1_000_000)) },
      faults: { type: 'string' },
      workers: { type: 'string', default: String(WORKERS) },
      short: { type: 'boolean', default: false },
    },
  });
  const { provider } = values;
  if (provider !== 'sqlite' && provider !== 'postgres') throw new TypeError('--provider is sqlite or postgres');
  if (provider === 'postgres' && noCluster !== undefined)
    throw new TypeError(`there is no Postgres server to harm: ${noCluster}`);
  const number = (name: 'minutes' | 'seed' | 'workers', least: number, isWhole: boolean) => {
    const value = Number(values[name]);
    if (!(value >= least) || (isWhole && !Number.isSafeInteger(value)))
      throw new TypeError(`--${name} is a ${isWhole ? 'whole ' : ''}number from ${least} on`);
    return value;
  };
  const faults = values.faults?.split(',').flatMap((name) => GROUPS[name] ?? [name]);
  const unknown = faults?.find((name) => !FAULTS.some((fault) => fault.name === name));
  if (unknown !== undefined) {
    const known = [...FAULTS.map(({ name }) => name), ...Object.keys(GROUPS)];
    throw new TypeError(`there is no fault '${unknown}'; there are: ${known.join(', ')}`);
  }
  return {
    provider,
    faults,
    isShort: values.short,
    minutes: number('minutes', 0, false),
    seed: number('seed', 0, true),
    // With at least two, another worker takes over while one is away.
    workers: number('workers', 2, true),
  };
}

// A round removes what it has made, so the first signal does not break it off. A second signal of the same kind
// ends the process at once.
let isEnough = false;
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => (isEnough = true));

try {
  const options = optionsOf(process.argv.slice(2));
  const onRound = (result: RoundResult) => {
    console.log(describeRound(result));
    return isEnough;
  };
  const report = await run({ ...options, onRound });
  console.log(`\n${describe(report)}`);
  process.exitCode = report.failures.length === 0 ? 0 : 1;
} catch (error) {
  console.error(error instanceof TypeError ? error.message : error);
  process.exitCode = 2;
}
