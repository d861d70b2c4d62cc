import { primaryFrozen, primaryKilled, primaryThawed, standbyAway, switchover } from './failover.ts';
import type { Fault } from './fault.ts';
import { eio, full, power } from './files.ts';
import { kill } from './kill.ts';
import { crash, restart, stall, terminate } from './server.ts';
import { stop } from './stop.ts';

export type { Fault } from './fault.ts';

/** All faults. A new fault is added to this list and nowhere else. */
export const FAULTS: readonly Fault[] = [
  kill,
  stop,
  restart,
  crash,
  terminate,
  stall,
  full,
  eio,
  power,
  primaryKilled,
  primaryFrozen,
  primaryThawed,
  standbyAway,
  switchover,
];

/** Names that stand for several faults. */
export const GROUPS: Readonly<Record<string, readonly string[]>> = {
  failover: FAULTS.filter(({ ground }) => ground === 'pair').map(({ name }) => name),
};
