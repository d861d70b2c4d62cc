// Source marks: where in the user's code an operation was asked for.

import { fileURLToPath } from 'node:url';

/**
 * A stack that was captured but not formatted. V8 formats it when `stack` is read, which happens only after a failure.
 */
export type SourceMark = Error;

/**
 * The number of frames that are captured: two of Perdure's own, and the nearest two of the user's with the frames that
 * V8 puts between generators. Each frame adds to the cost of every schedule.
 */
const FRAMES_MAX = 5;

/** The folders of Perdure's own code: as it runs, and as a process with `--enable-source-maps` shows it. */
const OWN = ['..', '../../js/']
  .map((folder) => new URL(folder, import.meta.url))
  .flatMap((url) => [url.href, fileURLToPath(url)]);

/** Captures the current stack. The mark is an error, because V8 captures that fastest. */
export function captureSource(): SourceMark {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = FRAMES_MAX;
  const mark = new Error();
  Error.stackTraceLimit = limit;
  return mark;
}

/**
 * Returns the user's lines of a mark, each as V8 writes it (`    at …`), innermost first; empty when there are none.
 */
export function sourceLines(mark: SourceMark | undefined): string {
  return userFrames(framesOf(mark?.stack)).join('\n');
}

/** Returns the user's lines of the current stack. */
export function sourceHere(): string {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 50;
  const { stack } = new Error();
  Error.stackTraceLimit = limit;
  return userFrames(framesOf(stack)).join('\n');
}

/** Returns the frames of a stack, without its message. */
function framesOf(stack: unknown): string[] {
  return typeof stack === 'string' ? stack.split('\n').filter((line) => /^\s+at /.test(line)) : [];
}

/**
 * Gives an error the stack that a reader looks for: the place where its cause was thrown, and then the line of the
 * orchestration that asked for it, as after an `await`. The error's own stack would show the driver.
 */
export function withCallerStack<E extends Error>(error: E, cause: Error | undefined, mark: SourceMark | undefined): E {
  const lines = [`${error.name}: ${error.message}`, ...activityFrames(cause?.stack)];
  const source = sourceLines(mark);
  if (source !== '') lines.push(source);
  return Object.defineProperty(error, 'stack', { value: lines.join('\n'), writable: true, configurable: true });
}

/** Returns the frames of an activity's failure, without the runner's frames below the activity's function. */
function activityFrames(stack: unknown): string[] {
  const frames = framesOf(stack);
  const runner = frames.findIndex((frame) => isPerdures(frame));
  const kept = runner < 0 ? frames : frames.slice(0, runner);
  while (runner >= 0 && isNodes(kept.at(-1) ?? '')) kept.pop();
  return kept;
}

/**
 * Returns the first run of frames that are the user's. The callers of the fiber are of no interest, nor are V8's own
 * calls of `next`.
 */
function userFrames(frames: string[]): string[] {
  const begin = frames.findIndex((frame) => !isPerdures(frame) && !isNodes(frame));
  if (begin < 0) return [];
  const end = frames.findIndex((frame, i) => i > begin && isPerdures(frame));
  return frames
    .slice(begin, end < 0 ? frames.length : end)
    .filter((frame) => !isNodes(frame) && !frame.endsWith('(<anonymous>)'));
}

function isPerdures(frame: string): boolean {
  return OWN.some((folder) => frame.includes(folder));
}

function isNodes(frame: string): boolean {
  return /[( ]node:/.test(frame);
}
