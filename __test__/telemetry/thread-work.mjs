// The code of worker threads in processes.test.ts: work that blocks its thread, and reports its trace.

import { threadId } from 'node:worker_threads';
import { trace } from '@opentelemetry/api';
import { defineActivity, defineOrchestration } from 'perdure';

export const dig = defineActivity('dig', () => {
  let sum = 0;
  for (let n = 0; n < 2_000_000; n += 1) sum = (sum * 31 + n) % 1_000_003;
  return { thread: threadId, sum, traceId: trace.getActiveSpan()?.spanContext().traceId };
});

export const threads = defineOrchestration('threads', function* (ctx, count) {
  return yield ctx.all(Array.from({ length: count }, () => ctx.scheduleActivity('dig')));
});
