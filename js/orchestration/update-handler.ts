// The handler of an update, as the driver calls it.

import type { AskHandler } from '../driver/asks.ts';
import { asyncRefusal } from '../driver/generator.ts';
import { checkOptions, func, type OptionTable, oneOf } from '../util/options.ts';
import { parseSync } from '../values/schema.ts';
import { checkBody } from './call-arguments.ts';
import type { CheckedHandled } from './handled.ts';
import type { UpdateHandlerOptions } from './updates.ts';

const HANDLER_OPTIONS: OptionTable = { validate: func, onEnd: oneOf('wait', 'reject') };

/**
 * Returns the handler that the arguments of `ctx.onUpdate` stand for.
 *
 * @throws TypeError when an argument is wrong
 */
export function updateHandler(
  { name, input: schema }: CheckedHandled,
  run: unknown,
  options: UpdateHandlerOptions | undefined,
): AskHandler {
  checkBody(run, 'onUpdate');
  const { validate, onEnd = 'wait' } = checkOptions(options, HANDLER_OPTIONS, `update '${name}'`) ?? {};
  if (validate !== undefined && asyncRefusal(validate) !== undefined)
    throw new TypeError(`update '${name}': validate decides at once, and this one is an async function`);
  const check = (input: unknown): unknown =>
    schema === undefined ? input : parseSync(schema, input, 'input', `update '${name}'`);
  return { run: run as AskHandler['run'], check, validate, onEnd };
}
