import type { Arena } from '../arena.ts';
import type { Dice } from '../dice.ts';
import type { Ground, ProviderName } from '../sites.ts';

/** One way to do harm. */
export interface Fault {
  readonly name: string;
  /** The harm that it does, in a few words. */
  readonly what: string;
  readonly providers: readonly ProviderName[];
  /** The ground that it needs. If it is absent, any ground will do. */
  readonly ground?: Ground;
  /** The reason for which it cannot be done on this machine. */
  readonly missing?: string | undefined;
  /**
   * Resolves when the harm is done and repaired: another process stands in the place of each that is gone. Throws if
   * the harm could not be done.
   */
  strike(arena: Arena, dice: Dice): Promise<void>;
}
