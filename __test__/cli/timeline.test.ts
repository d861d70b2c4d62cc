// The drawing of long histories, and of many like steps.

import { NonRetryableError } from 'perdure';
import { describe, expect, it } from 'vitest';

import { SHARED_STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { type Ended, perdure, storeFlags, valuesOf } from './perdure.ts';

const STEPS = 600;

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const timeline = (...args: string[]): Promise<Ended> => perdure(...storeFlags(store.address), 'timeline', ...args);
  const linesOf = ({ out }: Ended): string[] => out.trimEnd().split('\n');

  /** Starts an instance with many like steps, of which some fail, and waits for its end. */
  async function ended(name: string): Promise<string> {
    await store.start((runtime) => {
      runtime.registerActivity('import', async (_, n: number) => {
        if (n % 100 === 7) throw new NonRetryableError(`row ${n} is damaged`);
        return n;
      });
      runtime.registerActivity('report', async () => 'sent');
      runtime.registerOrchestration(name, function* (ctx) {
        const rows = Array.from({ length: STEPS }, (_, n) => ctx.scheduleActivity('import', n));
        yield ctx.allSettled(rows);
        return yield ctx.scheduleActivity('report');
      });
    });
    const id = store.id(name);
    await store.client.startOrchestration(id, name);
    expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({ status: 'Completed' });
    return id;
  }

  it('a history of more than 1 000 events is drawn to its end, and like steps share a line', async () => {
    const id = await ended('imports');
    const drawn = await timeline(id);
    expect(drawn).toMatchObject({ code: 0, err: '' });
    const lines = linesOf(drawn);
    expect(lines.map((line) => line.split(/ {2,}/)[0])).toEqual([
      '✓ imports',
      `✗ import ×${STEPS} ✗${STEPS / 100}`,
      '✓ report',
    ]);
    expect(drawn.out).not.toContain('…');
    // The picture of many steps shows how many of them are open at a time.
    expect(lines[1]).toMatch(/ {2}[▁▂▃▄▅▆▇█ ]*█[▁▂▃▄▅▆▇█ ]*$/);

    const whole = linesOf(await timeline(id, '--all'));
    expect(whole).toHaveLength(STEPS + 2);
    expect(whole.filter((line) => line.startsWith('✗ import '))).toHaveLength(STEPS / 100);
    const bars = valuesOf(await timeline(id, '--json'));
    expect(bars).toHaveLength(STEPS + 2);
    expect(bars.every(({ state }) => state !== 'open')).toBe(true);
  });

  it('a part of a history says where it ends', async () => {
    const id = await ended('parts');
    const part = await timeline(id, '--limit', '601');
    expect(part).toMatchObject({
      code: 0,
      err: 'the drawing ends with event 601, and the history goes on: draw more with --limit\n',
    });
    expect(linesOf(part).map((line) => line.split(/ {2,}/)[0])).toEqual(['* parts', `* import ×${STEPS} *${STEPS}`]);
  });

  it('outcomes are readable without colours', async () => {
    await store.start((runtime) => {
      runtime.registerActivity('declined', async () => {
        throw new NonRetryableError('declined');
      });
      runtime.registerActivity(
        'unwanted',
        (ctx) =>
          new Promise((_, reject) => {
            ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason));
          }),
      );
      runtime.registerOrchestration('outcomes', function* (ctx) {
        yield ctx.race(ctx.waitForEvent('now'), ctx.scheduleTimer(1));
        const late = ctx.scheduleActivity('unwanted');
        late.cancel();
        yield ctx.allSettled([late, ctx.scheduleActivity('declined')]);
        ctx.setCustomStatus('waits');
        yield ctx.scheduleTimer('1d');
      });
    });
    const id = store.id('outcomes');
    await store.client.startOrchestration(id, 'outcomes');
    await store.client.waitForStatusChange(id, 0, undefined, SOON);
    const { out } = await timeline(id);
    expect(linesOf({ out, code: 0, err: '' }).map((line) => line.split(/ {2,}/)[0])).toEqual([
      '* outcomes',
      '✓ timer',
      '- unwanted',
      '✗ declined',
      '* timer',
    ]);
    expect(out).not.toContain('\u001b');
    await store.client.terminateInstance(id);
  });
});
