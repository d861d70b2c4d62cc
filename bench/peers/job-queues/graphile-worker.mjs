// graphile-worker on Postgres. A job is one function, without steps and without a result.

import { range, secondsOf } from './runs.mjs';

export const graphileWorker = {
  name: 'graphile-worker',
  title: 'graphile-worker',
  stores: ['postgres'],
  nodeOptions: [],

  roles: {
    queues: async ({ place: { url, schema }, instances, repeat, concurrency }) => {
      const { Logger, run } = await import('graphile-worker');
      let left = 0;
      let finish = () => {};
      const one = () => {
        left -= 1;
        if (left === 0) finish();
      };
      const runner = await run({
        connectionString: url,
        schema,
        concurrency,
        noHandleSignals: true,
        logger: new Logger(() => () => {}),
        taskList: { one },
      });
      const measured = await secondsOf(repeat, async (prefix) => {
        left = instances;
        const finished = new Promise((resolve) => {
          finish = resolve;
        });
        await Promise.all(range(instances).map((n) => runner.addJob('one', 1, { jobKey: `${prefix}-${n}` })));
        await finished;
      });
      await runner.stop();
      return measured;
    },
  },
};
