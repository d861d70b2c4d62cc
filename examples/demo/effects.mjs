// A note of every activity run: when it began, and how it ended if it did. The database holds what counts; this file
// holds what really happened, and the report compares the two.

import { openSync, readFileSync, writeSync } from 'node:fs';

export class EffectLog {
  #file;

  constructor(path) {
    this.#file = openSync(path, 'a');
  }

  /** The same activity, with its runs noted. */
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

  /** Written with one synchronous call, so SIGKILL cannot take it back. */
  #note({ idempotencyKey: key, activityName: activity, attempt }, what, error) {
    const note = { time: Date.now(), pid: process.pid, key, activity, attempt, what, error: nameOf(error) };
    writeSync(this.#file, `${JSON.stringify(note)}\n`);
  }
}

/** What sort of error it is. Node's plain errors are told apart by their code, what a signal aborted by its reason. */
function nameOf(error) {
  if (error?.name === 'AbortError') return nameOf(error.cause);
  return error?.name === 'Error' ? (error.code ?? error.name) : error?.name;
}

/** All notes, oldest first. */
export function readEffects(path) {
  return readFileSync(path, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}
