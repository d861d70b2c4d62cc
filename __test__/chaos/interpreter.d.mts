import type { ActivityContext, Runtime } from 'perdure';

export const PLANNED: string;
export function register(runtime: Runtime, write: (event: 'begin' | 'end', ctx: ActivityContext) => void): void;
