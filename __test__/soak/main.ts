// The command `npm run soak`:
//
//   npm run soak -- --provider sqlite|postgres [--minutes N] [--seed N] [--processes N] [--threads N]
//   [--rate N]
//
// The seed decides the load, and it is printed. The exit code is 0 if all is flat and right, 1 if something is not, and
// 2 if the soak cannot be done.

import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';

import { describe } from './report.ts';
import { type SoakOptions, soak } from './soak.ts';

function optionsOf(args: readonly string[]): SoakOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      provider: { type: 'string' },
      minutes: { type: 'string', default: '10' },
      seed: { type: 'string', default: String(randomInt(1_000_000)) },
      processes: { type: 'string', default: '2' },
      threads: { type: 'string', default: '2' },
      rate: { type: 'string', default: '10' },
    },
  });
  const { provider } = values;
  if (provider !== 'sqlite' && provider !== 'postgres') throw new TypeError('--provider is sqlite or postgres');
  const number = (name: 'minutes' | 'seed' | 'processes' | 'threads' | 'rate', least: number, isWhole = true) => {
    const value = Number(values[name]);
    if (!(value >= least) || (isWhole && !Number.isSafeInteger(value)))
      throw new TypeError(`--${name} is a ${isWhole ? 'whole ' : ''}number from ${least} on`);
    return value;
  };
  return {
    provider,
    minutes: number('minutes', 0.1, false),
    seed: number('seed', 0),
    processes: number('processes', 1),
    threads: number('threads', 0),
    rate: number('rate', 1),
    isShort: false,
    isEnough: () => isEnough,
    onStage: (stage) => console.log(stage),
  };
}

// A soak removes what it has made, so the first signal does not break it off.
let isEnough = false;
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => (isEnough = true));

try {
  const report = await soak(optionsOf(process.argv.slice(2)));
  console.log(`\n${describe(report)}`);
  process.exitCode = report.failures.length === 0 ? 0 : 1;
} catch (error) {
  console.error(error instanceof TypeError ? error.message : error);
  process.exitCode = 2;
}
