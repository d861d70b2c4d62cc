import type { Fault } from './fault.ts';

/** Kills a worker or the client with SIGKILL, and starts another in its place. */
export const kill: Fault = {
  name: 'kill',
  what: 'SIGKILL to a process',
  providers: ['sqlite', 'postgres'],
  async strike(arena, dice) {
    if (dice.oneIn(5)) {
      await arena.kill(arena.client);
      await arena.startClient();
      arena.count('client kills');
      return;
    }
    const place = dice.between(0, arena.workers.length - 1);
    await arena.kill(arena.workers[place]!);
    await arena.startWorker(place);
    arena.count('kills');
  },
};
