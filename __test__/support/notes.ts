// Notes of the begin and the end of work, in the order in which they were made. The work of two notes overlaps only if
// both had a slot at the same time.

export interface WorkNote {
  readonly kind: 'begin' | 'end';
}

/** Returns the most of those that were at work at once, among the ones that `which` selects. */
export function mostAtOnce<N extends WorkNote>(notes: readonly N[], which: (note: N) => boolean = () => true): number {
  let [now, most] = [0, 0];
  for (const { kind } of notes.filter(which)) {
    now += kind === 'begin' ? 1 : -1;
    most = Math.max(most, now);
  }
  return most;
}
