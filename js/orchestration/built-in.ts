// Perdure's own orchestrations, which every runtime can run.

import type { OrchestrationDefinition } from './definition.ts';
import { holderOrchestration, lockOrchestration } from './lock-code.ts';
import { tokenOrchestration } from './tokens.ts';

export const BUILT_INS: readonly OrchestrationDefinition[] = [
  lockOrchestration,
  holderOrchestration,
  tokenOrchestration,
];
