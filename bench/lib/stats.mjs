// Numbers.

/** The value below which `share` of the values lie. */
export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * share;
  const low = sorted[Math.floor(at)];
  return low + (sorted[Math.ceil(at)] - low) * (at % 1);
}

export function median(values) {
  return quantile(values, 0.5);
}

/** The differences between neighbours. */
export function intervals(times) {
  return times.slice(1).map((time, n) => time - times[n]);
}

/** Each value and the next one, added: a, b, c, d gives a + b, c + d. */
export function pairs(values) {
  return Array.from({ length: Math.floor(values.length / 2) }, (_, n) => values[2 * n] + values[2 * n + 1]);
}

/** Rounds to three significant digits. */
export function short(value) {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size >= 1_000) return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ' ');
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}
