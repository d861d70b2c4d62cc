// A log of every activity run: its start, and its end if there was one. The database has the recorded results, and this
// file has the actual runs. The report compares the two.

import { openSync, readFileSync, writeSync } from 'node:fs';

export class EffectLog {
  #file;

  constructor(path) {
    this.#file = openSync(path, 'a');
  }

  /** Returns the same activity, and logs its runs. */
  noting(run) {
    return async (ctx, input) => {
      this.#note(ctx, 'began');
      try {
        const output = await run(ctx, input);
        this.#note(ctx, 'ended');
        return output;
      } catch (error) {
        this.#note(ctx, 'failed', error);
        throw error;
      }
    };
  }

  /** Writes with one synchronous call, so SIGKILL cannot undo it. */
  #note({ idempotencyKey: key, activityName: activity, attempt }, what, error) {
    const note = { time: Date.now(), pid: process.pid, key, activity, attempt, what, error: nameOf(error) };
    writeSync(this.#file, `${JSON.stringify(note)}\n`);
  }
}

/** Returns the kind of an error: the code of Node's plain errors, and the reason of an aborted signal. */
function nameOf(error) {
  if (error?.name === 'AbortError') return nameOf(error.cause);
  return error?.name === 'Error' ? (error.code ?? error.name) : error?.name;
}

/** Returns all notes, oldest first. */
export function readEffects(path) {
  return readFileSync(path, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}
