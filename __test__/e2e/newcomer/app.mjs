// A first program with one mistake. Arguments: the mistake, and the file of the store.

import { Client, Runtime, SqliteProvider } from 'perdure';

const [mistake, file] = process.argv.slice(2);
const isEdited = mistake === 'edited code' || mistake === 'edited code, next run';
const provider = await SqliteProvider.open(file);
const runtime = new Runtime(provider);
runtime.registerActivity('charge', async () => {
  if (mistake === 'failing activity') throw new RangeError('the bank is closed');
  return 'charged';
});
runtime.registerActivity('refund', async () => 'refunded');
runtime.registerOrchestration('order', function* (ctx) {
  if (mistake === 'forgotten yield in a text') return `receipt ${ctx.scheduleActivity('charge')}`;
  if (mistake === 'forgotten yield in the output') return { receipt: ctx.scheduleActivity('charge') };
  if (mistake === 'forgotten yield of a call') ctx.scheduleActivity('refund');
  if (mistake === 'promise in place of an activity') return yield fetch('http://127.0.0.1:9/');
  const receipt = yield ctx.scheduleActivity(isEdited ? 'refund' : 'charge');
  ctx.setCustomStatus('charged');
  if (mistake === 'first run' || isEdited) yield ctx.waitForEvent('shipped');
  return receipt;
});

const client = new Client(provider);
if (mistake !== 'no runtime') await runtime.start();
if (mistake === 'first run') {
  await client.startOrchestration('order-1', 'order');
  await client.waitForStatusChange('order-1', 0);
  await runtime.shutdown();
  await provider.close();
} else if (mistake !== 'edited code, next run') {
  const name = { 'wrong name': 'ordr', 'never registered': 'invoice' }[mistake] ?? 'order';
  if (mistake !== 'edited code') await client.startOrchestration('order-1', name);
  if (mistake === 'edited code') await client.raiseEvent('order-1', 'shipped');
  console.log(await client.handle('order-1').result());
}
