// A worker thread of a runtime: it loads the modules, takes a lane, and runs the lane's jobs until it is told to stop.

import { parentPort, workerData } from 'node:worker_threads';

import { acquireRejections } from '../activity/rejections.ts';
import { laneOf } from '../binding/lane.ts';
import { joinStore } from '../binding/store.ts';
import { Client } from '../client/client.ts';
import { RuntimeStateError } from '../errors/errors.ts';
import { fieldsText, type TraceFields, type TraceLevel } from '../logging/fields.ts';
import { isLogged } from '../logging/logger.ts';
import { acquireGuard } from '../orchestration/determinism.ts';
import { Provider, StorePort, textsOf } from '../store/providers.ts';
import { AsyncCodecTexts } from '../values/async-codec.ts';
import { DEFAULT_LIMITS, limitsOver } from '../values/limits.ts';
import { TypeRegistry } from '../values/value-types.ts';
import { Host } from './host.ts';
import { Lane } from './lane.ts';
import { loadModules } from './modules.ts';
import { Registry } from './registry.ts';
import type { ThreadData, ThreadMessage } from './threads.ts';

/** A store that the first thread has opened and will close. */
class JoinedProvider extends Provider {
  constructor(port: StorePort) {
    super(port);
  }
}

/** Sends log lines and errors to the first thread, which has the logger and the listeners. */
class ThreadHost extends Host {
  protected line(level: TraceLevel, message: string, fields: TraceFields): void {
    say({ type: 'line', level, message, fields });
  }

  warn(what: string, fields: TraceFields, error: unknown): void {
    say({ type: 'warn', what, fields, error });
  }

  report(error: unknown, what: string): void {
    say({ type: 'report', error, what });
  }

  // Only the first thread receives these two.
  logLine(): void {}

  instanceEnded(): void {}
}

/** Sends a message. Values that cannot be sent are replaced by the texts that a log would show. */
function say(message: ThreadMessage): void {
  try {
    parentPort?.postMessage(message);
  } catch {
    const texts = Object.entries(message).map(([key, value]) => [
      key,
      typeof value === 'string' ? value : textOf(value),
    ]);
    parentPort?.postMessage(Object.fromEntries(texts));
  }
}

function textOf(value: unknown): unknown {
  if (value instanceof Error) return new Error(value.message);
  return typeof value === 'object' && value !== null ? JSON.parse(fieldsText(value as TraceFields)) : String(value);
}

const data = workerData as ThreadData;
const { definitions, codec, types = {}, telemetry } = await loadModules(data.modules);
if (data.codec === 'sync' && textsOf({ ...(codec && { codec }) }).kind !== 'sync') {
  throw new RuntimeStateError(
    "the provider has a codec, and worker threads need it too: one of the modules must export it as 'codec'",
  );
}
const missing = data.types.filter((name) => !Object.hasOwn(types, name));
if (missing.length > 0) {
  throw new RuntimeStateError(
    `the provider has types (${missing.join(', ')}), and worker threads need them too: ` +
      "one of the modules must export them as 'types'",
  );
}
if (data.isTraced && telemetry === undefined) {
  throw new RuntimeStateError(
    "the runtime has telemetry, and worker threads need it too: one of the modules must export it as 'telemetry'",
  );
}
const tracing = data.isTraced && telemetry !== undefined ? { telemetry } : {};
const registry = new Registry();
for (const definition of definitions) {
  if (definition.kind === 'activity') registry.addActivity(definition);
  else registry.addOrchestration(definition);
}
const texts = data.codec === 'async' ? new AsyncCodecTexts() : textsOf({ ...(codec && { codec }) });
const port = new StorePort(joinStore(data.store), texts.withTypes(new TypeRegistry(types)), null);
port.limits = limitsOver(data.options.limits, port.limits);
const { payloadBytes, mailboxMessages } = limitsOver(data.options.limits, DEFAULT_LIMITS);
const client = new Client(new JoinedProvider(port), { limits: { payloadBytes, mailboxMessages }, ...tracing });
const host = new ThreadHost(registry, client, port.texts, tracing.telemetry, data.options);
host.workerId = data.workerId;
if (host.isGuarded) acquireGuard();
acquireRejections();
const native = laneOf(data.runtime, data.lane);
const lane = new Lane(native, host);
// This listener keeps the thread alive.
parentPort?.on('message', () => {
  lane.close();
  // Activities that were told to stop may reject promises, which become visible only after one round of the event loop.
  setImmediate(() => process.exit());
});
native.attach(lane.wake, isLogged('warn', data.options.logLevel ?? 'info'));
lane.open();
say({ type: 'ready' });
