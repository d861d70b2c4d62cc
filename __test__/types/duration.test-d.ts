import {
  type Client,
  type Duration,
  defineActivity,
  defineOrchestration,
  type InstanceHandle,
  type IsoTime,
} from 'perdure';
import { describe, expectTypeOf, it } from 'vitest';

declare const client: Client;
declare const handle: InstanceHandle;
declare const setting: string | undefined;

describe('a duration', () => {
  it('is a number or text with a unit', () => {
    expectTypeOf<5 | 1.5 | '250ms' | '1.5s' | '5m' | '24h' | '7d' | '0ms'>().toExtend<Duration>();
    expectTypeOf<'soon'>().not.toExtend<Duration>();
    expectTypeOf<'5'>().not.toExtend<Duration>();
    expectTypeOf<'5min'>().not.toExtend<Duration>();
    expectTypeOf<'h'>().not.toExtend<Duration>();
    expectTypeOf<string>().not.toExtend<Duration>();
  });

  it('is checked wherever one is taken', () => {
    defineOrchestration('sleeps', function* (ctx, { hours, dueAt }: { hours: number; dueAt: string }) {
      yield* ctx.sleep(`${hours}h`);
      yield* ctx.scheduleTimer('2030-01-01T00:00:00Z');
      yield* ctx.sleep(new Date(dueAt));
      yield* ctx.withTimeout('30s', ctx.waitForEvent('go'));
      // @ts-expect-error there is no such unit
      yield* ctx.sleep('2 weeks');
      // @ts-expect-error text of any form
      yield* ctx.sleep(dueAt);
      // @ts-expect-error there is no such unit
      yield* ctx.dequeueBatch('jobs', 5, '5sec');
    });
    // @ts-expect-error there is no such unit
    defineActivity('a', () => 1, { timeout: '5 minutes' });
    // @ts-expect-error there is no such unit
    void client.waitForOrchestration('id', '1hour');
    void handle.result({ timeout: setting as Duration });
    expectTypeOf<'2030-01-31' | '2030-01-31T12:00:00Z'>().toExtend<IsoTime>();
    expectTypeOf<'tomorrow'>().not.toExtend<IsoTime>();
  });
});
