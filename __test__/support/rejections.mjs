// A process in which promises are rejected that nobody handles: see rejections.test.ts. Plain Node and the built package.
// What is to happen is named by the arguments; the last line of stdout says that the process has come to its end.

import { Client, Runtime, SqliteProvider } from 'perdure';

const wanted = new Set(process.argv.slice(2));
const print = (line) => process.stdout.write(`${line}\n`);

if (wanted.has('listener')) {
  process.on('unhandledRejection', (reason) => print(`listener: ${reason.message}`));
}

const logger = {
  debug() {},
  info() {},
  warn() {},
  error: ({ error, activityName, instanceId, attempt }, message) =>
    print(`log: ${activityName} of ${instanceId} attempt ${attempt}: ${message}: ${error.message}`),
};
const provider = await SqliteProvider.inMemory();
const client = new Client(provider);
const runtimes = ['one', 'two'].map((name) => {
  const runtime = new Runtime(provider, { logger });
  runtime.on('warning', (warning) => print(`warning: ${warning.code} ${warning.cause.message}`));
  return runtime.registerOrchestration(name, function* (ctx) {
    return yield ctx.run(name, async () => {
      await null;
      setTimeout(() => void Promise.reject(new Error(`left by ${name}`)), 1);
      await new Promise((resolve) => setTimeout(resolve, 50));
      return `output of ${name}`;
    });
  });
});

const before = process.emit;
for (const runtime of runtimes) await runtime.start();
if (wanted.has('activities')) {
  for (const name of ['one', 'two']) {
    await client.startOrchestration(name, name);
    const { status, output } = await client.waitForOrchestration(name);
    print(`${status}: ${output}`);
  }
}
if (wanted.has('foreign')) {
  void Promise.reject(new Error('foreign'));
  await new Promise((resolve) => setTimeout(resolve, 20));
}
await runtimes[0].shutdown();
print(`still there: ${process.emit !== before}`);
await runtimes[1].shutdown();
await provider.close();
print(`restored: ${process.emit === before && !Object.hasOwn(process, 'emit')}`);
if (wanted.has('late')) {
  void Promise.reject(new Error('late'));
  await new Promise((resolve) => setTimeout(resolve, 20));
}
print('end');
