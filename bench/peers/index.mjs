// The peers: other engines that do the same workloads.

import { dbos } from './dbos.mjs';
import { bullmq } from './job-queues/bullmq.mjs';
import { graphileWorker } from './job-queues/graphile-worker.mjs';

/** The first one is measured by default. */
export const PEERS = [dbos, bullmq, graphileWorker];
