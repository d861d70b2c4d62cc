// The folders of the repository and of the benchmark.

import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const bench = fileURLToPath(new URL('..', import.meta.url));
