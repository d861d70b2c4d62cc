// BullMQ on a Redis server of its own, which syncs its log with each write. A job is one function, without steps.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { range, secondsOf } from './runs.mjs';

export const bullmq = {
  name: 'bullmq',
  title: 'BullMQ',
  stores: ['sqlite', 'postgres'],
  /** Each job that is waited for adds a listener to the queue. */
  nodeOptions: ['--no-warnings'],

  roles: {
    queues: ({ instances, repeat, concurrency }) =>
      withRedis(async (connection) => {
        const { Queue, QueueEvents, Worker } = await import('bullmq');
        const [queue, events] = [new Queue('slots', { connection }), new QueueEvents('slots', { connection })];
        const worker = new Worker('slots', async ({ data }) => data, { connection, concurrency });
        await Promise.all([events.waitUntilReady(), worker.waitUntilReady()]);
        const one = async (jobId) => {
          const job = await queue.add('one', 1, { jobId });
          if ((await job.waitUntilFinished(events)) !== 1) throw new Error(`the job ${jobId} gave another result`);
        };
        const measured = await secondsOf(repeat, (prefix) =>
          Promise.all(range(instances).map((n) => one(`${prefix}-${n}`))),
        );
        for (const part of [worker, events, queue]) await part.close();
        return measured;
      }),
  },
};

/** Runs work on a server that listens on a socket in a folder of its own. */
async function withRedis(work) {
  const folder = await mkdtemp(join(tmpdir(), 'perdure-bench-'));
  const path = join(folder, 'redis.sock');
  const flags = [
    '--port',
    '0',
    '--unixsocket',
    path,
    '--dir',
    folder,
    '--appendonly',
    'yes',
    '--appendfsync',
    'always',
  ];
  const server = spawn('redis-server', flags, { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(server, 'exit');
  try {
    const ready = new Promise((resolve) => {
      server.stdout.on('data', (text) => /ready to accept connections/i.test(text) && resolve());
    });
    await Promise.race([ready, ended.then(() => Promise.reject(new Error('redis-server did not start')))]);
    return await work({ path, maxRetriesPerRequest: null });
  } finally {
    server.kill();
    await ended;
    await rm(folder, { recursive: true });
  }
}
