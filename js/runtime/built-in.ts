// Perdure's own orchestrations, which every runtime can run.

import type { OrchestrationDefinition } from '../orchestration/definition.ts';
import { holderOrchestration, lockOrchestration } from '../orchestration/lock-code.ts';
import { tokenOrchestration } from '../orchestration/tokens.ts';
import { scheduleOrchestration } from '../schedules/schedule-code.ts';
import { runOrchestration } from '../schedules/schedule-run.ts';

export const BUILT_INS: readonly OrchestrationDefinition[] = [
  lockOrchestration,
  holderOrchestration,
  tokenOrchestration,
  scheduleOrchestration,
  runOrchestration,
];
