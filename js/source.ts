// Where in the user's code something was asked for.

import { fileURLToPath } from 'node:url';

/** A stack that was captured but not formatted: V8 does that when `stack` is read, which is only after a failure. */
export type SourceMark = Error;

/**
 * Frames that are captured: two of Perdure's own, and the nearest two of the user's with what V8 puts between generators.
 * Each has its price at every schedule.
 */
const FRAMES_MAX = 6;

const OWN_URL = new URL('.', import.meta.url).href;
const OWN_PATH = fileURLToPath(OWN_URL);

/** Remember the stack as it is now. An error, because that is what V8 captures fastest. */
export function captureSource(): SourceMark {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = FRAMES_MAX;
  const mark = new Error();
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

/** The first run of frames that are the user's: what called the fiber is of no interest, nor are the calls of `next` themselves. */
function userFrames(all: string[]): string[] {
  const frames = all.filter((frame) => !frame.endsWith('(<anonymous>)'));
  const begin = frames.findIndex((frame) => !isOwn(frame));
  if (begin < 0) return [];
  const end = frames.findIndex((frame, i) => i > begin && isOwn(frame));
  return frames.slice(begin, end < 0 ? frames.length : end);
}

function isOwn(frame: string): boolean {
  return frame.includes(OWN_URL) || frame.includes(OWN_PATH) || /[( ]node:/.test(frame);
}
