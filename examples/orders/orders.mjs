// The order and its two activities, which every worker registers.

import { appendFile, link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { defineActivity, defineOrchestration } from 'perdure';

/** Charges the customer, waits for approval until it expires, and ships. */
export const order = defineOrchestration('order', function* (ctx, { total, within }) {
  const receipt = yield ctx.scheduleActivity('charge', { total });
  ctx.setCustomStatus('charged');

  const answer = yield ctx.race(ctx.waitForEvent('approve'), ctx.scheduleTimer(within));
  if (answer.index === 1) return { outcome: 'expired', chargedBy: receipt.worker };

  ctx.setCustomStatus('approved');
  const shippedBy = yield ctx.scheduleActivity('ship', { receipt: receipt.number });
  return { outcome: 'shipped', chargedBy: receipt.worker, shippedBy };
});

/** Creates the activities of one worker. A file records each attempt, so that the books can be checked. */
export function createActivities(folder, worker) {
  const note = (step, ctx) =>
    appendFile(attemptsOf(folder), `${JSON.stringify({ step, worker, key: ctx.idempotencyKey })}\n`);
  return [
    defineActivity('charge', async (ctx, { total }) => {
      await note('charge', ctx);
      await delay(150, undefined, { signal: ctx.signal });
      return pay(folder, ctx.idempotencyKey, { worker, total });
    }),
    defineActivity('ship', async (ctx, { receipt }) => {
      await note('ship', ctx);
      await delay(50, undefined, { signal: ctx.signal });
      return worker;
    }),
  ];
}

export const attemptsOf = (folder) => join(folder, 'attempts.jsonl');
export const paymentsOf = (folder) => join(folder, 'payments');

/** The payment service: one file per idempotency key. A second call with the same key returns the first receipt. */
async function pay(folder, key, payment) {
  const number = key.replaceAll('/', '-');
  const path = join(paymentsOf(folder), `${number}.json`);
  await mkdir(paymentsOf(folder), { recursive: true });
  // Writes to a temporary name first, so that the file is complete and is created only once.
  const part = `${path}.${process.pid}`;
  await writeFile(part, JSON.stringify({ number, ...payment }));
  await link(part, path).catch((error) => {
    if (error.code !== 'EEXIST') throw error;
  });
  await rm(part);
  return JSON.parse(await readFile(path, 'utf8'));
}
