import { describe, expect, it } from 'vitest';

import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  describe('now, random and randomUUID', () => {
    it('are the same in every replay', async () => {
      const passes: unknown[][] = [];
      const rounds = 6;
      await store.start(
        (runtime) =>
          runtime
            .registerActivity('tick', () => {})
            .registerOrchestration('deterministic', function* (ctx) {
              const pass: unknown[] = [];
              passes.push(pass);
              for (let i = 1; i <= rounds; i += 1) {
                pass.push(ctx.now(), ctx.random(), ctx.randomUUID());
                ctx.setCustomStatus(i);
                yield ctx.waitForEvent('next');
                yield ctx.scheduleActivity('tick');
              }
              return pass;
            }),
        { cachedInstancesMax: 0 },
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'deterministic');
      for (let i = 1; i <= rounds; i += 1) {
        await store.client.waitForStatusChange(id, i - 1, undefined, SOON);
        await store.client.raiseEvent(id, 'next');
      }
      const { output, createdAt } = await store.client.waitForOrchestration<any>(id, SOON);
      expect(passes.length, 'it was replayed').toBeGreaterThan(rounds);
      for (const pass of passes) expect(pass).toEqual(output.slice(0, pass.length));
      const at = (place: number): any[] => output.filter((_: unknown, i: number) => i % 3 === place);
      expect(new Set(at(1)).size).toBe(rounds);
      for (const random of at(1)) expect(random >= 0 && random < 1).toBe(true);
      expect(new Set(at(2)).size).toBe(rounds);
      for (const uuid of at(2))
        expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      const times = at(0);
      expect(times[0]).toBe(Number(createdAt));
      expect(times).toEqual([...times].sort((a, b) => a - b));
      const recorded = (await store.client.getHistory(id)).map((event) => Number(event.time));
      for (const time of times) expect(recorded).toContain(time);
    });

    it('differ from instance to instance', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('dice', function* (ctx) {
          return [ctx.random(), ctx.randomUUID()];
        }),
      );
      const ids = Array.from({ length: 20 }, () => store.id());
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'dice')));
      const outputs = await Promise.all(
        ids.map(async (id) => (await store.client.waitForOrchestration(id, SOON)).output),
      );
      expect(new Set(outputs.flat()).size).toBe(40);
    });
  });
});
