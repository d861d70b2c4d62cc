// `perdure check`

import type { StoreFinding } from '../../client/store-check.ts';
import type { Cli } from '../cli.ts';
import { EXIT, Exit } from '../exit.ts';
import { countText, printable } from '../text.ts';

export function check(cli: Cli): void {
  cli.command('check', 'check the store for damaged and inconsistent rows, while workers run').action(
    cli.storeAction(async ({ client, terminal }) => {
      const findings: StoreFinding[] = [];
      let [instances, events] = [0, 0];
      let cursor: string | null = null;
      do {
        const step = await client.checkStore(cursor === null ? {} : { cursor });
        instances += step.instances;
        events += step.events;
        findings.push(...step.findings);
        if (terminal.isJson) for (const finding of step.findings) terminal.data(finding);
        ({ cursor } = step);
        terminal.progress(`${countText(instances, 'instance')} checked`);
      } while (cursor !== null);
      if (!terminal.isJson && findings.length > 0) {
        terminal.table<StoreFinding>(
          [
            { title: 'RULE', text: ({ rule }) => rule },
            { title: 'ID', text: ({ instanceId }) => printable(instanceId ?? ''), mayShrink: true },
            { title: 'FINDING', text: ({ detail }) => printable(detail) },
          ],
          findings,
        );
      }
      const seen = `${countText(instances, 'instance')} with ${countText(events, 'event')}`;
      if (findings.length > 0) throw new Exit(EXIT.unwell, `${countText(findings.length, 'finding')} in ${seen}`);
      terminal.note(`no problems in ${seen}`);
    }),
  );
}
