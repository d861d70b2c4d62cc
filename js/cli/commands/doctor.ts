// `perdure doctor`

import { examineStore, type Finding, findingOfFailure } from '../checkup.ts';
import type { Cli } from '../cli.ts';
import { EXIT, Exit } from '../exit.ts';
import { countText } from '../text.ts';

const MARKS = { well: ['green', '✓'], doubtful: ['yellow', '!'], unwell: ['red', '✗'] } as const;

export function doctor(cli: Cli): void {
  cli.command('doctor', 'check the store and its settings, leases, and what is overdue or suspended, and why').action(
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
      const unwell = findings.filter(({ state }) => state === 'unwell').length;
      const doubtful = findings.filter(({ state }) => state === 'doubtful').length;
      if (unwell > 0)
        throw new Exit(
          EXIT.unwell,
          `${countText(unwell, 'problem')}${doubtful === 0 ? '' : `, ${countText(doubtful, 'doubt')}`}`,
        );
      terminal.note(doubtful === 0 ? 'all is well' : countText(doubtful, 'doubt'));
    }),
  );
}
