// Garbage collection at a moment that a test chooses.

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');

/** Collects the garbage of this thread. */
export const collectGarbage = runInNewContext('gc') as () => void;
