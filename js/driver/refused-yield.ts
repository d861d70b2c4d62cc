// The errors for values that user code yields but that no fiber can wait for.

import { types } from 'node:util';

import { DeterminismError } from '../errors/errors.ts';
import { otherCopyNote } from '../util/copy.ts';
import { isInstance } from '../util/show.ts';
import { BaseFuture } from './future.ts';
import { describeValue } from './generator.ts';

/** Returns the error for an orchestration that yielded something that cannot be waited for. */
export function notAFuture(value: unknown): DeterminismError {
  if (isInstance(value, BaseFuture) && !types.isProxy(value)) {
    return new DeterminismError(
      'a future of another orchestration was yielded: an instance can wait only for its own futures',
      {
        called: 'yield',
        instead: 'ctx.scheduleActivity',
      },
    );
  }
  const note = otherCopyNote(value);
  if (note !== undefined)
    return new DeterminismError(`a future was yielded that an orchestration cannot wait for: ${note}`, {
      called: 'yield',
      instead: 'one copy of perdure',
    });
  const what = describeValue(value);
  const instead = remedy(what);
  return new DeterminismError(`${what} was yielded, which an orchestration cannot wait for: ${instead}`, {
    called: `yield of ${what}`,
    instead,
  });
}

function remedy(what: string): string {
  switch (what) {
    case 'a promise':
      return "do the asynchronous work in an activity and write `yield ctx.scheduleActivity('name', input)`";
    case 'an async generator':
      return 'orchestrations are written as `function*`, without `async`';
    case 'a generator':
      return 'write `yield* block()` to run it here, or `yield ctx.spawn(block)` to run it as a fiber';
    case 'an array':
      return 'write `yield ctx.all([…])`';
    case 'a function':
      return 'call it, and yield the future that it returns';
    default:
      return 'yield what a method of the context returned, such as `yield ctx.scheduleTimer(1000)`';
  }
}
