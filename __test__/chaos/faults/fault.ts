import type { Arena } from '../arena.ts';
import type { Dice } from '../dice.ts';
import type { Ground, ProviderName } from '../sites.ts';

/** One way to do harm. */
export interface Fault {
  readonly name: string;
  /** What it is to, in a few words. */
  readonly what: string;
  readonly providers: readonly ProviderName[];
  /** What the store's files must be on; anything, where this is not said. */
  readonly ground?: Ground;
  /** Why it cannot be done on this machine. */
  readonly missing?: string | undefined;
  /** Resolves when it was done and all is as it was before, with another process in the place of each that is gone. Throws when it did not happen. */
  strike(arena: Arena, dice: Dice): Promise<void>;
}
