// `perdure doctor`

import { examineStore, type Finding, findingOfFailure } from '../checkup.ts';
import type { Cli } from '../cli.ts';
import { EXIT, Exit } from '../exit.ts';
import { countText } from '../text.ts';

const MARKS = { ok: ['green', '✓'], warning: ['yellow', '!'], problem: ['red', '✗'] } as const;

export function doctor(cli: Cli): void {
  cli.command('doctor', 'check the store, its settings, leases, and overdue and suspended instances').action(
    cli.action(async ({ terminal, flags }) => {
      const { withStore } = await import('../store.ts');
      let findings: Finding[];
      try {
        findings = await withStore(flags, examineStore);
      } catch (error) {
        findings = [findingOfFailure(error)];
      }
      for (const finding of findings) {
        const { subject, state, detail, advice } = finding;
        if (terminal.isJson) {
          terminal.data(finding);
          continue;
        }
        const [style, mark] = MARKS[state];
        terminal.line(
          `${terminal.style(style, mark)} ${terminal.style('bold', subject)}  ${detail.replaceAll('\n', '\n    ')}`,
        );
        if (advice !== undefined) terminal.line(`    ${terminal.style('dim', '→')} ${advice}`);
      }
      const problems = findings.filter(({ state }) => state === 'problem').length;
      const warnings = findings.filter(({ state }) => state === 'warning').length;
      if (problems > 0)
        throw new Exit(
          EXIT.unwell,
          `${countText(problems, 'problem')}${warnings === 0 ? '' : `, ${countText(warnings, 'warning')}`}`,
        );
      terminal.note(warnings === 0 ? 'no problems found' : countText(warnings, 'warning'));
    }),
  );
}
