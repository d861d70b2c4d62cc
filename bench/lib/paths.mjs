// Where things are.

import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const bench = fileURLToPath(new URL('..', import.meta.url));
