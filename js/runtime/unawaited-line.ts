// The log line about futures that an orchestration never waited for: in most cases `yield*` was forgotten.

import type { FiberScheduler } from '../driver/scheduler.ts';
import { sourceLines } from '../driver/source.ts';
import type { AskedFor } from '../driver/unawaited.ts';
import { LineLimit } from '../logging/line-limit.ts';
import type { OrchestrationFacts } from '../orchestration/orchestration-host.ts';
import { trace } from '../tracing/trace.ts';

/** The number of futures that a line names. */
const SHOWN_MAX = 5;

const limit = new LineLimit(() => performance.now());

/**
 * Logs the futures that the code of an execution, which has returned, never waited for: as a warning if an activity or
 * a child is among them. A replay logs nothing.
 */
export function warnOfUnawaited(scheduler: FiberScheduler, { version, ...origin }: OrchestrationFacts): void {
  const { port, unawaited, operations } = scheduler;
  const found = unawaited.find(operations.values());
  if (found.length === 0 || port.isReplaying()) return;
  const leftOut = limit.admit();
  if (leftOut === undefined) return;
  const { instanceId, executionId, name } = origin;
  const shown = found.slice(0, SHOWN_MAX).map((future) => ({ future: future.describe(), source: lineOf(future) }));
  const list = shown.map(({ future, source }) => (source === '' ? future : `${future} (${source})`));
  if (found.length > shown.length) list.push(`${found.length - shown.length} more`);
  const before = leftOut === 0 ? '' : `; ${leftOut} such lines before this one were left out`;
  const message =
    `instance '${instanceId}' of '${name}' has returned and never waited for ${list.join(', ')}: ` +
    `write \`yield*\` before the call, or cancel the future if its value is not needed${before}`;
  const level = found.some(({ isWork }) => isWork) ? 'warn' : 'info';
  trace(scheduler, port, { instanceId, executionId, orchestrationName: name }, level, message, {
    version,
    unawaited: shown,
  });
}

/** Returns the line of the code that asked for a future; empty if it is not known. */
function lineOf({ source }: AskedFor): string {
  const [frame = ''] = sourceLines(source).split('\n');
  return frame.trim();
}
