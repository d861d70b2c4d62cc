// A process with promise rejections that are not handled: see rejections.test.ts. Runs in plain Node with the built
// package. The arguments select the rejections. The last line of stdout says that the process has come to its end.

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
  error({ error, activityName, instanceId, attempt }, message) {
    // Other lines are about instances that failed.
    if (!message.includes('left behind')) return;
    print(`log: ${activityName} of ${instanceId} attempt ${attempt}: ${message}: ${error.message}`);
  },
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
if (wanted.has('refused')) {
  const refused = () => Promise.reject(new Error('refused'));
  const places = {
    *yield() {
      yield refused();
    },
    *list() {
      yield [refused(), new Map([['key', { deep: refused() }]])];
    },
    *all(ctx) {
      yield ctx.all([ctx.scheduleTimer(0), refused(), refused()]);
    },
    *race(ctx) {
      yield ctx.race(refused(), refused());
    },
    *select(ctx) {
      yield ctx.select({ a: refused(), b: refused() });
    },
    *spawn(ctx) {
      yield ctx.spawn(refused());
    },
    *spawned(ctx) {
      yield ctx.spawn(() => refused());
    },
    *call(ctx) {
      yield ctx.call(refused());
    },
    *name(ctx) {
      yield ctx.scheduleActivity(refused());
    },
    *input(ctx) {
      yield ctx.scheduleActivity('echo', { price: refused(), weight: [refused()] });
    },
    *status(ctx) {
      ctx.setCustomStatus(refused());
    },
    *return() {
      return refused();
    },
    function: refused,
    *output(ctx) {
      yield ctx.run('output', async () => [refused()]);
    },
  };
  for (const [place, fn] of Object.entries(places)) {
    runtimes[0].registerOrchestration(place, fn);
    await client.startOrchestration(place, place);
    const { status } = await client.waitForOrchestration(place);
    print(`${place}: ${status}`);
  }
  await client.startOrchestration('given', 'yield', { price: refused() }).catch(({ code }) => print(`client: ${code}`));
  await new Promise((resolve) => setTimeout(resolve, 20));
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
