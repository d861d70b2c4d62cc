// Sets the SDK up on a worker thread, as a program does it there. The main thread already has one, which stays.

import { isMainThread } from 'node:worker_threads';
import { NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { openTelemetry } from 'perdure/telemetry';

if (!isMainThread) new NodeTracerProvider().register();

export const telemetry = openTelemetry();
