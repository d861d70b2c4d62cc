// The programs whose histories are kept for ever, in ../../fixtures/histories: a folder for each release that wrote
// some.
//
// Programs are never changed, only added. A history is replayed with the current code, so a change of a program that
// has one is a change that instances of users would not survive. The same holds for the names of instances and for the
// work that they are expected to wait for. If an operation is new, or has a new effect, another program is added, and
// `npm run golden` records it.
//
// Error messages are recorded, too, since the programs pass them on as users' code does: rewording an error of Perdure
// changes the result of such code in a replay.
//
// A program must do the same in each run, on each store: operations that could come in two orders are made to wait for
// each other.

import type { Program } from '../stage.ts';
import { activities, failures, retrying, retryPolicies } from './activities.ts';
import { checked, facts, freely } from './context.ts';
import { cancelled, terminated } from './ends-from-outside.ts';
import { entities } from './entities.ts';
import { again, patched, publishes, reads } from './executions.ts';
import { combinators, fibers, stuck } from './fibers.ts';
import { locks, namedLock } from './locks.ts';
import { messages } from './messages.ts';
import { childRetries, children, full, others, startedReceivers, starts } from './other-instances.ts';
import { freePatterns, patterns, polls } from './patterns.ts';
import { queries } from './queries.ts';
import { activityQueues, admissions } from './queues.ts';
import { scheduleRun, schedules } from './schedules.ts';
import { givenUp, outOfTime, pool, saga, shielded, together } from './scopes.ts';
import { streams } from './streams.ts';
import { limitsGiven, timeLimits } from './time-limits.ts';
import { late, timers } from './timers.ts';
import { token, tokens } from './tokens.ts';
import { unbegun, waiting } from './unended.ts';
import { updates } from './updates.ts';
import { names, unstorable, values } from './values.ts';

export const PROGRAMS: readonly Program[] = [
  activities,
  failures,
  retrying,
  values,
  unstorable,
  names,
  timers,
  late,
  messages,
  children,
  others,
  full,
  again,
  patched,
  publishes,
  combinators,
  fibers,
  stuck,
  cancelled,
  saga,
  outOfTime,
  pool,
  together,
  shielded,
  givenUp,
  terminated,
  facts,
  freely,
  checked,
  waiting,
  unbegun,
  patterns,
  polls,
  freePatterns,
  starts,
  childRetries,
  retryPolicies,
  reads,
  startedReceivers,
  updates,
  entities,
  locks,
  namedLock,
  token,
  tokens,
  streams,
  schedules,
  scheduleRun,
  admissions,
  activityQueues,
  timeLimits,
  limitsGiven,
  queries,
];
