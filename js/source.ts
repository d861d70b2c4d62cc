// Where in the user's code something was asked for.

import { fileURLToPath } from 'node:url';

/** A stack that was captured but not formatted: V8 does that when `stack` is read, which is only after a failure. */
export interface SourceMark {
  readonly stack?: string;
}

/** Frames that are captured: enough to get past Perdure's own ones below a nested `yield*`. */
const FRAMES_MAX = 8;

const OWN_URL = new URL('.', import.meta.url).href;
const OWN_PATH = fileURLToPath(OWN_URL);

/** Remember the stack above `entry`, the function that the user called. */
export function captureSource(entry: (...args: never[]) => unknown): SourceMark {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = FRAMES_MAX;
  const mark: SourceMark = {};
  Error.captureStackTrace(mark, entry);
  Error.stackTraceLimit = limit;
  return mark;
}

/** The user's lines of a mark, each as V8 writes it (`    at …`), innermost first; empty when there are none. */
export function sourceLines(mark: SourceMark | undefined): string {
  return userFrames(framesOf(mark?.stack)).join('\n');
}

/** The user's lines of the stack as it is now. */
export function sourceHere(): string {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 50;
  const { stack } = new Error();
  Error.stackTraceLimit = limit;
  return userFrames(framesOf(stack)).join('\n');
}

/** The frames of a stack, without its message. */
export function framesOf(stack: unknown): string[] {
  return typeof stack === 'string' ? stack.split('\n').filter((line) => /^\s+at /.test(line)) : [];
}

function userFrames(frames: string[]): string[] {
  return frames.filter((frame) => !frame.includes(OWN_URL) && !frame.includes(OWN_PATH) && !/[( ]node:/.test(frame));
}
