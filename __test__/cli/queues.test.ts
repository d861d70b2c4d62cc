// `perdure queues`, and starts in a queue or later by the command line.

import { describe, expect, it } from 'vitest';

import { SHARED_STORES } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { type Ended, perdure, storeFlags, valuesOf } from './perdure.ts';

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const run = (...args: string[]): Promise<Ended> => perdure(...storeFlags(store.address), ...args);
  const on = (...args: string[]): Promise<Ended> => run('queues', ...args);

  it('queues are set, listed and deleted', async () => {
    expect(await on()).toEqual({ code: 0, out: '', err: 'there is no queue\n' });
    expect(await on('list', '--json')).toEqual({ code: 0, out: '', err: '' });
    const all = ['--concurrency', '20', '--per-worker', '5', '--rate', '50/1s'];
    const ofKeys = ['--key-concurrency', '2', '--key-rate', '5/1.5s', '--fair'];
    const words = '20 at once, 5 a worker, 50 in 1s, 2 at once of a key, 5 in 1s 500ms of a key, keys in turn';
    expect(await on('set', 'mails', ...all, ...ofKeys)).toEqual({
      code: 0,
      out: '',
      err: `mails: set, limits: ${words}\n`,
    });
    expect(await on('set', 'other')).toMatchObject({ code: 0, err: 'other: set, limits: none\n' });
    const waiting = store.id();
    await store.client.startOrchestration(waiting, 'unregistered', 1, { queue: 'mails' });
    const lines = (await on('list')).out.trim().split('\n');
    expect(lines[0]).toMatch(/^QUEUE +RUNNING +WAITING +DELAYED +TOKENS +OLDEST +STATE +LIMITS$/);
    expect(lines[1]).toMatch(new RegExp(`^mails +0 +1 +0 +50 +.* ago +${words}$`));
    expect(lines[2]).toMatch(/^other +0 +0 +0 +none$/);
    expect(valuesOf(await on('--json'))).toEqual([
      {
        name: 'mails',
        limits: {
          concurrency: 20,
          perWorker: 5,
          rate: { limit: 50, per: 1_000 },
          perKey: { concurrency: 2, rate: { limit: 5, per: 1_500 } },
          fairness: 'key',
        },
        waiting: 1,
        delayed: 0,
        running: 0,
        tokens: 50,
        oldestWait: expect.stringMatching(/^\d{4}-.*Z$/),
      },
      { name: 'other', limits: {}, waiting: 0, delayed: 0, running: 0 },
    ]);
    expect(await on('pause', 'mails')).toEqual({ code: 0, out: '', err: 'mails: paused\n' });
    const paused = (await on()).out.trim().split('\n');
    expect(paused[0]).toMatch(/ OLDEST +STATE +LIMITS$/);
    expect(paused[1]).toMatch(new RegExp(`^mails +0 +1 +0 +50 +.* ago +paused (now|.* ago) +${words}$`));
    const since = { since: expect.stringMatching(/^\d{4}-.*Z$/) };
    expect(valuesOf(await on('--json'))[0]).toMatchObject({ name: 'mails', waiting: 1, paused: since });
    const shown = await run('show', waiting);
    expect(shown.out).toMatch(/^Queue +mails: in line since .* ago\); the queue is paused \((now|.* ago)\)$/m);
    expect(valuesOf(await run('doctor', '--json'))).toContainEqual({
      subject: 'queues',
      state: 'warning',
      detail: expect.stringMatching(/^queue mails was paused (now|.* ago), and 1 wait in it$/),
      advice: 'run `perdure queues resume mails` when they are to run',
    });
    expect(await on('resume', 'mails')).toEqual({ code: 0, out: '', err: 'mails: resumed\n' });
    expect(valuesOf(await on('--json'))[0]).not.toHaveProperty('paused');
    expect(await on('pause', 'mials')).toMatchObject({ code: 3, err: expect.stringContaining("no queue 'mials'") });
    expect(await on('delete', 'other', '--yes')).toEqual({ code: 0, out: '', err: 'other: deleted\n' });
    expect(await on('delete', 'other', '--yes')).toMatchObject({ code: 3, out: '' });
    expect(await on('delete', 'mails', '--yes')).toMatchObject({
      code: 1,
      err: expect.stringContaining('is not empty'),
    });
  });

  it.each([
    [['set', 'a', '--concurrency', '0'], 'concurrency must be a whole number from 1 to 1000000, got 0'],
    [['set', 'a', '--concurrency', 'many'], 'It must be a whole number'],
    [['set', 'a', '--rate', '50'], "It must be a number and a time, such as '50/1s'"],
    [['set', 'a', '--rate', '50/soon'], 'It must be a duration'],
    [['set', 'a', '--key-rate', '0/1s'], 'perKey.rate.limit must be a whole number'],
    [['stop', 'a'], "queues has no command 'stop'; the commands are list, set, pause, resume, delete"],
  ])('%j is refused', async (args, message) => {
    expect(await on(...args)).toMatchObject({ code: 2, out: '', err: expect.stringContaining(message) });
  });

  it('an instance is started in a queue, or later', async () => {
    await store.client.queues.set('jobs', { concurrency: 1 });
    const start = (...flags: string[]): Promise<Ended> => run('start', 'unregistered', ...flags);
    expect(await start('--queue', 'jobs', '--key', 'ada')).toMatchObject({ code: 0 });
    expect(await start('--queue', 'jobs', '--delay', '1h')).toMatchObject({ code: 0 });
    expect(await start('--queue', 'jobs', '--start-at', '2100-01-01T00:00:00Z')).toMatchObject({ code: 0 });
    expect(await store.client.queues.get('jobs')).toMatchObject({ waiting: 1, delayed: 2 });
    const { items } = await store.client.listInstances({ name: 'unregistered' }).page();
    const shown = await Promise.all(items.map(async ({ id }) => (await run('show', id)).out));
    expect(shown.filter((out) => /^Queue +jobs, key ada: in line since /m.test(out))).toHaveLength(1);
    expect(shown.filter((out) => /^Queue +jobs: comes into line at /m.test(out))).toHaveLength(2);
    expect(await start('--timeout', '1h', '--grace-period', '90s', '--id', 'limited')).toMatchObject({ code: 0 });
    expect((await store.client.getHistory('limited'))[0]?.meta).toMatchObject({
      timeLimit: { timeoutMs: 3_600_000, graceMs: 90_000 },
    });
    expect(await start('--queue', 'mials')).toMatchObject({
      code: 3,
      err: expect.stringContaining("no queue 'mials'"),
    });
    expect(await start('--key', 'ada')).toMatchObject({
      code: 2,
      err: expect.stringContaining('needs the option queue'),
    });
  });

  it('a start tells which instance stands for it', async () => {
    const start = (...flags: string[]): Promise<Ended> => run('start', 'unregistered', ...flags);
    const first = await start('--singleton', 'skip', '--key', 'ada');
    expect(await start('--singleton', 'skip', '--key', 'ada')).toMatchObject({ code: 0, out: first.out });
    expect((await start('--singleton', 'cancel', '--key', 'ada')).out).not.toBe(first.out);
    expect((await run('show', first.out.trim())).out).toMatch(/^Unread +1 messages/m);
    const throttled = await start('--throttle', '1h');
    expect((await start('--throttle', '1h')).out).toBe(throttled.out);
    const debounced = await start('--debounce', '1h', '--debounce-max', '2h');
    expect((await start('--debounce', '1h')).out).toBe(debounced.out);
    expect(await start('--debounce-max', '2h')).toMatchObject({
      code: 2,
      err: expect.stringContaining('--debounce-max needs --debounce'),
    });
    expect(await start('--debounce', '1h', '--throttle', '1h')).toMatchObject({
      code: 2,
      err: expect.stringContaining('takes one of the options throttle and debounce, not both'),
    });
  });
});
