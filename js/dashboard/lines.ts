// The lines that an instance logged: the last ones that match a filter. A store returns the oldest lines first, so all
// kept lines are read, and those before the last ones are dropped. A runtime limits the number of kept lines.

import type { LogLine } from '../client/logs.ts';
import type { LogsAnswer } from './answers.ts';
import { fieldsLine, isSevere } from './log-filter.ts';
import type { Presenter } from './presenter.ts';
import type { LinesQuery, Query } from './query.ts';
import { checkExecution, found, type RouteContext } from './route-context.ts';

/** Lines that are read from the store at once. */
const READ = 1_000;

/** Most readings for one answer. They cover the most lines that a runtime can keep, and one more. */
const READINGS_MAX = 101;

export async function logs({ client, presenter }: RouteContext, query: Query): Promise<LogsAnswer> {
  const asked = query.lines();
  const { id, of, limit } = asked;
  if (of.executionId !== undefined) await checkExecution(client, id, of.executionId);
  const last: LogLine[] = [];
  let cursor = of.cursor ?? null;
  let hasEarlier = false;
  for (let reading = 0; reading < READINGS_MAX; reading += 1) {
    const page = found(id, await client.logs(id, { ...of, cursor, limit: READ }));
    last.push(...page.lines.filter((line) => matches(line, asked, presenter)));
    const tooMany = Math.max(0, last.length - limit);
    last.splice(0, tooMany);
    hasEarlier ||= tooMany > 0;
    ({ cursor } = page);
    if (page.lines.length < READ) break;
  }
  return { lines: last.map((line) => presenter.line(line, id)), cursor, hasEarlier };
}

/** The text is sought in what is shown: a search does not find redacted values. */
function matches(line: LogLine, { id, level, text }: LinesQuery, presenter: Presenter): boolean {
  if (!isSevere(line.level, level)) return false;
  if (text === '') return true;
  const shown = presenter.line(line, id);
  return `${shown.message}\n${fieldsLine(shown)}`.toLowerCase().includes(text.toLowerCase());
}
