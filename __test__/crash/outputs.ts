/** Returns the output of an instance of `steps` or `collects`, see worker.mjs. */
export function outputOf(seed: number, steps: number): number {
  let value = seed;
  for (let step = 1; step <= steps; step += 1) value = (value * 31 + step) % 1_000_003;
  return value;
}
