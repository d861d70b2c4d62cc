// Transactional steps of DBOS: `runTransaction` of its datasource for Drizzle, in the database of its own tables.
//
// Its datasources for plain SQL on the registry are of its version 4, and need the SDK of that version. So this folder
// has packages of its own.

import { DBOS } from '@dbos-inc/dbos-sdk';
import { DrizzleDataSource } from '@dbos-inc/drizzle-datasource';
import { sql } from 'drizzle-orm';

import { intervals, median } from '../../lib/stats.mjs';
import { assertIs, chainOf, configOf } from '../dbos-parts.mjs';

/** The figures of `transactions`, as Perdure has them: see workloads/transactions.mjs. */
export async function transactions({ place: { url, schema }, steps, parallel, stepsEach, connections, repeat }) {
  const times = [];
  const user = new DrizzleDataSource('user', { connectionString: url, max: connections }, {}, schema);
  const step = user.registerTransaction(
    async (n) => {
      await DrizzleDataSource.client.execute(sql`insert into ${sql.identifier(schema)}.rows values (${n})`);
      times.push(performance.now());
      return n + 1;
    },
    { name: 'step' },
  );
  const chain = DBOS.registerWorkflow(chainOf(step), { name: 'chain' });
  const run = async (workflowID, count) => {
    const handle = await DBOS.startWorkflow(chain, { workflowID })(count);
    assertIs(await handle.getResult(), count);
  };

  DBOS.setConfig(configOf({ url, schema }));
  await DBOS.launch();
  await user.runTransaction(
    () => DrizzleDataSource.client.execute(sql`create table ${sql.identifier(schema)}.rows (n bigint)`),
    { name: 'create' },
  );
  await run('warm', steps);
  times.length = 0;
  await run('run', steps);
  const p50 = median(intervals(times));
  const seconds = [];
  for (let n = 0; n <= repeat; n += 1) {
    const began = performance.now();
    await Promise.all(Array.from({ length: parallel }, (_, i) => run(`parallel-${n}-${i}`, stepsEach)));
    seconds.push((performance.now() - began) / 1_000);
  }
  await DBOS.shutdown();
  return { p50, rate: (parallel * stepsEach) / median(seconds.slice(1)) };
}
