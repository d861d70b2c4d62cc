// First programs with one mistake each: each says within seconds what is wrong, and what to do.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { Process } from '../../support/process.ts';

const app = fileURLToPath(new URL('app.mjs', import.meta.url));

describe('a first program', () => {
  let folder: string;
  const running: Process<never, never>[] = [];
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'newcomer-'));
  });
  afterEach(async () => {
    for (const program of running.splice(0)) await program.kill();
    rmSync(folder, { recursive: true });
  });

  function run(mistake: string): Process<never, never> {
    const program = new Process<never, never>(mistake, [process.execPath, app, mistake, join(folder, 'app.db')]);
    running.push(program);
    return program;
  }

  it('with a wrong name hears which name may be meant', async () => {
    await run('wrong name').wrote(
      "instance 'order-1' waits: no running worker has registered orchestration 'ordr'; did you mean 'order'?",
    );
  });

  it('with an orchestration that it never registered hears that', async () => {
    await run('never registered').wrote("no running worker has registered orchestration 'invoice'");
  });

  it('without a runtime hears how to start one', async () => {
    await run('no runtime').wrote('start one with `await runtime.start()`');
  });

  it.each([
    [
      'in a text',
      "the future of activity 'charge' was used as a string: write `yield*` before the call to wait for its value",
    ],
    [
      'in the output',
      "output.receipt cannot be stored: it is the future of activity 'charge', not its value: " +
        'write `yield*` before the call',
    ],
  ])('that forgets `yield*` %s ends with the place and the word to write', async (where, message) => {
    const program = run(`forgotten yield ${where}`);
    expect(await program.exited()).toMatchObject({ code: 1 });
    expect(program.stderr).toContain(message);
    expect(program.stderr).toContain('app.mjs:');
  });

  it('that forgets `yield*` before a call whose value it does not use hears of it', async () => {
    await run('forgotten yield of a call').wrote(
      "instance 'order-1' of 'order' has returned and never waited for activity 'refund'",
    );
  });

  it('that awaits a request in the orchestration ends with the way to an activity', async () => {
    const program = run('promise in place of an activity');
    expect(await program.exited()).toMatchObject({ code: 1 });
    expect(program.stderr).toContain('fetch was called in an orchestration');
    expect(program.stderr).toContain("use an activity: yield ctx.scheduleActivity('name', input)");
  });

  it('whose activity fails hears of each attempt, and ends with the error', async () => {
    const program = run('failing activity');
    await program.wrote("attempt 1 of 3 of activity 'charge' of instance 'order-1' failed");
    expect(await program.exited()).toMatchObject({ code: 1 });
    expect(program.stderr).toContain("ActivityError: activity 'charge' failed");
    expect(program.stderr).toContain('the bank is closed');
  });

  it('whose code was edited ends with what differs, and the next run names the instance', async () => {
    expect(await run('first run').exited()).toMatchObject({ code: 0 });
    const program = run('edited code');
    expect(await program.exited()).toMatchObject({ code: 1 });
    expect(program.stderr).toContain('SuspendedError');
    expect(program.stderr).toContain("event 2: recorded activity 'charge', attempted activity 'refund'");
    expect(program.stderr).toContain('Run the old code again, or register the change under a new version.');
    await run('edited code, next run').wrote("1 instance is suspended:\\n'order-1' (order 1.0.0)");
  });
});
