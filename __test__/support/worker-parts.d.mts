import type { Provider } from 'perdure';

import type { StoreAddress } from './providers.ts';

export const LINE: number;
export function openLog(path: string): (entry: object) => void;
export function say(message: object): void;
export function pause(ms: number): Promise<void>;
export function openStore(store: StoreAddress): Promise<Provider>;
export function seeded(seed: number): () => number;
