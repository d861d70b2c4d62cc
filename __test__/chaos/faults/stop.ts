import { isLocked } from '../../support/rows.ts';
import { pause } from '../../support/worker-parts.mjs';
import type { Arena } from '../arena.ts';
import type { Fault } from './fault.ts';
import { registered, takenOver } from './lease.ts';

/**
 * Stops a worker with SIGSTOP until others have taken over its work, and then continues it with SIGCONT. For a moment
 * the worker believes that it still owns everything.
 */
export const stop: Fault = {
  name: 'stop',
  what: 'SIGSTOP to a worker beyond its lease',
  providers: ['sqlite', 'postgres'],
  missing: process.platform === 'win32' ? 'Windows stops no processes' : undefined,
  async strike(arena, dice) {
    const { site } = arena;
    const place = dice.between(0, arena.workers.length - 1);
    const victim = arena.workers[place]!;
    const lost = await registered(arena, victim);
    // In most cases the worker has a pending write when it is stopped. The write reaches the store when the worker has
    // lost the right to it.
    const release = dice.oneIn(4) ? undefined : await site.holdWrites(place);
    if (release !== undefined) await pause(dice.between(20, 80));
    let from = Date.now();
    victim.pause();
    if (release === undefined) from = stopOutsideOfWrite(arena, victim, from);
    if (site.holdsUpOthers) await release?.();
    await takenOver(arena, victim, lost, from, async () => {
      if (!site.holdsUpOthers) await release?.();
      victim.resume();
    });
    arena.count('zombies');
  },
};

/**
 * Stops the worker outside of a write. While a process stands still in the middle of a write to an SQLite file, no
 * other process can write there, so the worker is continued and stopped again.
 */
function stopOutsideOfWrite(arena: Arena, victim: { pause(): void; resume(): void }, from: number): number {
  while (isLocked(arena.site.address)) {
    victim.resume();
    from = Date.now();
    victim.pause();
  }
  return from;
}
