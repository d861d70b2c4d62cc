import { isLocked } from '../../support/rows.ts';
import { pause } from '../../support/worker-parts.mjs';
import type { Arena } from '../arena.ts';
import type { Fault } from './fault.ts';
import { registered, takenOver } from './lease.ts';

/** SIGSTOP to a worker until others have taken its work over, then SIGCONT: it believes for a moment that all is still its own. */
export const stop: Fault = {
  name: 'stop',
  what: 'SIGSTOP to a worker beyond its lease',
  providers: ['sqlite', 'postgres'],
  missing: process.platform === 'win32' ? 'Windows stops no processes' : undefined,
  async strike(arena, dice) {
    const { site } = arena;
    const place = dice.between(0, arena.workers.length - 1);
    const victim = arena.workers[place]!;
    await registered(arena, victim);
    // In most cases it has something to write when it is stopped, which comes to the store when it has no right to that any more.
    const release = dice.oneIn(4) ? undefined : await site.holdWrites(place);
    if (release !== undefined) await pause(dice.between(20, 80));
    let from = Date.now();
    victim.pause();
    if (release === undefined) from = stopOutsideOfWrite(arena, victim, from);
    if (site.holdsUpOthers) await release?.();
    await takenOver(arena, victim, from, async () => {
      if (!site.holdsUpOthers) await release?.();
      victim.resume();
    });
    arena.count('zombies');
  },
};

/** While a process stands still in the middle of a write to a file, nobody can write there: it is stopped another time, then. */
function stopOutsideOfWrite(arena: Arena, victim: { pause(): void; resume(): void }, from: number): number {
  while (isLocked(arena.site.address)) {
    victim.resume();
    from = Date.now();
    victim.pause();
  }
  return from;
}
