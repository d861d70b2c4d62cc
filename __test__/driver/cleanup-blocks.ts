// Blocks with a cleanup, and a script that lets each cleanup succeed.

import type { OrchestrationContext } from '../../js/orchestration/orchestration-context.ts';
import type { Script } from './scripted-engine.ts';

export type Block = Generator<any, any, any>;

/** A block that takes a step, and one more to undo it. */
export function* book(ctx: OrchestrationContext, log: string[], name: string): Block {
  try {
    return yield ctx.scheduleActivity(name);
  } finally {
    log.push(`${name} undoes`);
    yield ctx.scheduleActivity(`undo ${name}`);
    log.push(`${name} undone`);
  }
}

/** Lets each scheduled `undo` succeed until a turn ends in another way than by waiting. */
export function undoAll(script: Script): string {
  const done = new Set<number>();
  for (;;) {
    const end = script.turn();
    const open = script.engine.commands.findIndex((command, i) => command.startsWith('activity undo') && !done.has(i));
    if (end !== 'waiting' || open < 0) return end;
    done.add(open);
    script.engine.succeed(open + 2);
  }
}
