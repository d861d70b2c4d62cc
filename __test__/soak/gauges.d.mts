import type { Client } from 'perdure';

import type { Gauges } from './gauge.ts';

export function gaugesOfProcess(): Gauges;
export function fillPool(client: Client): Promise<void>;
