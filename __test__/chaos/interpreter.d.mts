import type { Runtime } from 'perdure';
import type { ActivityContext } from 'perdure';

export const PLANNED: string;
export function register(runtime: Runtime, write: (event: 'begin' | 'end', ctx: ActivityContext) => void): void;
