// The lines of a watched instance.

import { spawn } from 'node:child_process';
import { stripVTControlCharacters } from 'node:util';
import { NonRetryableError } from 'perdure';
import { describe, expect, it } from 'vitest';
import { openLine } from '../../js/cli/commands/watch.ts';
import type { InstanceStatus } from '../../js/client/instance-status.ts';
import { deferred } from '../support/async.ts';
import { SHARED_STORES } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { launch, MAIN, storeFlags, valuesOf } from './perdure.ts';

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('each event names its activity, child or timer, and its attempt', async () => {
    await store.start((runtime) => {
      runtime.registerActivity('flaky', async ({ attempt }) => {
        if (attempt < 3) throw new Error('the bank is down');
        return 'paid';
      });
      runtime.registerActivity('declined', async () => {
        throw new NonRetryableError('no funds');
      });
      runtime.registerOrchestration('child', function* () {});
      runtime.registerOrchestration('order', function* (ctx) {
        yield ctx.scheduleActivity('flaky', 1, { retry: { maxAttempts: 3, initialInterval: 1, jitter: 0 } });
        yield ctx.allSettled([ctx.scheduleActivity('declined')]);
        yield ctx.scheduleSubOrchestration('child', null, { id: `${ctx.instanceId}/child` });
        yield ctx.scheduleTimer(1);
      });
    });
    const id = store.id('order');
    await store.client.startOrchestration(id, 'order');
    const watched = await launch([...storeFlags(store.address), 'watch', id, '--interval', '20ms']).ended;
    expect(watched).toMatchObject({ code: 0, err: '' });
    expect(
      watched.out
        .trimEnd()
        .split('\n')
        .map((line) => line.replace(/^\d{4}-\S+ \S+Z {2}/, '').replace(/for \d+ms/, 'for 1ms')),
    ).toEqual([
      '  ExecutionStarted  order',
      '  ActivityScheduled  flaky  1',
      '✗ ActivityAttemptFailed  flaky  attempt 1, again in 1ms; Error: the bank is down',
      '✗ ActivityAttemptFailed  flaky  attempt 2, again in 2ms; Error: the bank is down',
      "✓ ActivityCompleted  flaky  attempt 3  'paid'",
      '  ActivityScheduled  declined',
      '✗ ActivityFailed  declined  attempt 1  NonRetryableError: no funds',
      `  ChildScheduled  child  as ${id}/child; null`,
      '✓ ChildCompleted  child',
      '  TimerCreated  timer  for 1ms',
      '✓ TimerFired  timer',
      '✓ ExecutionCompleted',
      'Completed  undefined',
    ]);

    const events = valuesOf(await launch([...storeFlags(store.address), 'watch', id, '--json']).ended);
    expect(events.map(({ event }) => event).filter((event) => event?.kind.startsWith('ActivityCompleted'))).toEqual([
      expect.objectContaining({ name: 'flaky', attempt: 3 }),
    ]);
  });

  it('on a terminal, the last line names the activities that run', async () => {
    const [begun, end] = [deferred<void>(), deferred<string>()];
    await store.start((runtime) => {
      runtime.registerActivity('charge', async () => {
        begun.resolve();
        return end.promise;
      });
      runtime.registerOrchestration('order', function* (ctx) {
        return yield ctx.scheduleActivity('charge');
      });
    });
    const id = store.id('order');
    await store.client.startOrchestration(id, 'order');
    await begun.promise;
    // `script` runs the command on a terminal.
    const command = [process.execPath, MAIN, ...storeFlags(store.address), 'watch', id, '--interval', '20ms'];
    const quoted = command.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ');
    const child = spawn('script', ['-qec', quoted, '/dev/null'], { env: { ...process.env, NO_COLOR: '1' } });
    child.stdin.end();
    let out = '';
    for await (const text of child.stdout.setEncoding('utf8')) {
      out += text;
      if (/Running: activity 'charge', for \d/.test(out)) end.resolve('paid');
    }
    expect(stripVTControlCharacters(out).trimEnd()).toMatch(/Completed {2}'paid'$/);
  });
});

it('the last line names some open operations, or the reason for which an instance does not go on', () => {
  const since = new Date(Date.now() - 3_000);
  const open = ['a', 'b', 'c', 'd', 'e'].map(
    (name, at) => ({ kind: 'activity', eventId: at + 2, name, since, attempt: at + 1 }) as const,
  );
  const running = { status: 'Running' } as InstanceStatus;
  expect(openLine(running, open)).toBe(
    "Running: activity 'a', for 3s; activity 'b', attempt 2, for 3s; activity 'c', attempt 3, for 3s; 2 more",
  );
  const again = new Date(Date.now() + 90_500);
  expect(openLine(running, [{ kind: 'activity', eventId: 2, name: 'a', since, attempt: 2, due: again }])).toBe(
    "Running: activity 'a', attempt 2, due in 1m 30s",
  );
  expect(openLine(running, [])).toBe('Running: no open activity, timer or child');
  expect(openLine({ status: 'Pending', reason: 'Pending: no worker' } as InstanceStatus, [])).toBe(
    'Pending: no worker',
  );
});
