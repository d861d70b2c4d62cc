import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { type Logger, RuntimeStateError } from 'perdure';
import { describe, expect, it } from 'vitest';

import { aborted, deferred, nextTick } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const program = fileURLToPath(new URL('../../support/rejections.mjs', import.meta.url));
const root = fileURLToPath(new URL('../../..', import.meta.url));

/** Runs a process of its own, because an unhandled rejection ends it. */
function run(wanted: string[], flags: string[] = []) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [...flags, program, ...wanted], {
    cwd: root,
    encoding: 'utf8',
    env: { ...process.env, NODE_OPTIONS: '' },
    timeout: 20_000,
  });
  return { status, lines: stdout.split('\n').filter(Boolean), stderr };
}

const told = (name: string) => {
  const what = `activity '${name}' left behind a rejected promise that no code handles`;
  return [
    `log: ${name} of ${name} attempt 1: ${what}: left by ${name}`,
    `warning: UNHANDLED_REJECTION left by ${name}`,
    `Completed: output of ${name}`,
  ];
};
const ends = ['still there: true', 'restored: true', 'end'];

describe('an unhandled rejection', () => {
  it('is reported by the runtime of its activity, without other effects', () => {
    expect(run(['activities'])).toEqual({ status: 0, lines: [...told('one'), ...told('two'), ...ends], stderr: '' });
  });

  it('ends the process as ever when it is none of an activity', () => {
    for (const [wanted, lines] of [
      [['foreign'], []],
      [['late'], ends.slice(0, 2)],
    ] as const) {
      const crash = run([...wanted]);
      expect(crash).toMatchObject({ status: 1, lines });
      expect(crash.stderr).toContain(`Error: ${wanted[0]}`);
    }
  });

  it('is none of a promise that was refused, wherever that was', () => {
    const places = [
      'yield',
      'list',
      'all',
      'race',
      'select',
      'spawn',
      'spawned',
      'call',
      'name',
      'input',
      'status',
      'return',
      'function',
      'output',
    ];
    const lines = [...places.map((place) => `${place}: Failed`), 'client: PAYLOAD', ...ends];
    expect(run(['refused'])).toEqual({ status: 0, lines, stderr: '' });
  });

  it('goes to the listeners of others as ever when it is none of an activity, and only then', () => {
    const { status, lines } = run(['listener', 'activities', 'foreign', 'late']);
    const others = ['listener: foreign', ...ends.slice(0, 2), 'listener: late', 'end'];
    expect({ status, lines }).toEqual({ status: 0, lines: [...told('one'), ...told('two'), ...others] });
  });

  it('is a warning of Node if Node is set to warn', () => {
    const { status, lines, stderr } = run(['foreign'], ['--unhandled-rejections=warn']);
    expect({ status, lines }).toEqual({ status: 0, lines: ends });
    expect(stderr).toContain('UnhandledPromiseRejectionWarning: Error: foreign');
  });
});

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /** Returns runtime options whose logger records errors, and the list of these. */
  function listening() {
    const logged: any[] = [];
    const logger = {
      debug() {},
      info() {},
      warn() {},
      error: (fields, message) => logged.push({ ...fields, message }),
    } as Logger;
    return { logged, options: { logger, logLevel: 'error' as const } };
  }

  it('is found wherever an activity has led, also after it has settled', async () => {
    const { logged, options } = listening();
    const late = deferred();
    await store.start(
      (runtime) =>
        runtime
          .registerActivity('leaves', async () => {
            void (async () => {
              throw new RangeError('at once');
            })();
            void Promise.resolve().then(() => {
              throw new RangeError('in a callback');
            });
            setImmediate(() => void Promise.reject('no error'));
            setImmediate(() => {
              void late.promise.then(() => {
                throw new RangeError('late');
              });
            });
            await nextTick();
            return 'fine';
          })
          .registerOrchestration('leaves', function* (ctx) {
            return yield ctx.scheduleActivity('leaves');
          }),
      options,
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'leaves');
    expect((await store.client.waitForOrchestration(id, SOON)).output).toBe('fine');
    late.resolve();
    await nextTick();
    await nextTick();
    const facts = { instanceId: id, executionId: 1, orchestrationName: 'leaves', activityName: 'leaves', attempt: 1 };
    for (const line of logged) expect(line).toMatchObject(facts);
    expect(logged.map(({ error }) => error.message ?? error)).toEqual(['at once', 'in a callback', 'no error', 'late']);
  });

  it('is still found when a shutdown causes it', async () => {
    const { logged, options } = listening();
    const begun = deferred();
    const runtime = await store.start(
      (r) =>
        r
          .registerActivity('aborted', async ({ signal }) => {
            void aborted(signal).then((reason) => {
              throw reason;
            });
            begun.resolve();
            await new Promise(() => {});
          })
          .registerOrchestration('aborted', function* (ctx) {
            yield ctx.scheduleActivity('aborted');
          }),
      options,
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'aborted');
    await begun.promise;
    await runtime.shutdown(1);
    expect(logged).toEqual([
      expect.objectContaining({ activityName: 'aborted', error: expect.any(RuntimeStateError) }),
    ]);
    await store.client.terminateInstance(id);
  });
});
