import { type Client, defineOrchestration, defineSchedule, type ScheduleInfo, type ScheduleRun } from 'perdure';
import { expectTypeOf, it } from 'vitest';

declare const client: Client;

const report = defineOrchestration('report', function* (_ctx, input: { kind: string }) {
  return input.kind;
});
const plain = defineOrchestration('plain', function* () {});

it('the input of the runs has the type of the definition', () => {
  void (() => {
    defineSchedule('a', { cron: '0 2 * * *', start: { definition: report, input: { kind: 'daily' } } });
    defineSchedule('a', { every: '1h', offset: '5m', start: { definition: plain } });
    defineSchedule('a', { at: [new Date(), '2030-01-01'], start: { name: 'report', version: '1.0.0', input: 7 } });
    // @ts-expect-error: the input is missing
    defineSchedule('a', { every: '1h', start: { definition: report } });
    // @ts-expect-error: the input has another type
    void client.schedules.upsert('a', { every: '1h', start: { definition: report, input: { kind: 1 } } });
    // @ts-expect-error: there are no times
    defineSchedule('a', { start: { definition: plain } });
    // @ts-expect-error: there is no such behaviour
    defineSchedule('a', { every: '1h', overlap: 'queue', start: { definition: plain } });
  });
});

it('a client reads schedules and runs them', () => {
  expectTypeOf(client.schedules.get('a')).resolves.toEqualTypeOf<ScheduleInfo | null>();
  expectTypeOf(client.schedules.list()).toEqualTypeOf<AsyncIterable<ScheduleInfo>>();
  expectTypeOf(client.schedules.trigger('a')).resolves.toEqualTypeOf<ScheduleRun>();
  expectTypeOf(client.schedules.next('a', 3)).resolves.toEqualTypeOf<Date[]>();
});
