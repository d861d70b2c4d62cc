import type { Fault } from './fault.ts';

/** SIGKILL, to a worker or to the client, and another one in its place. */
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
