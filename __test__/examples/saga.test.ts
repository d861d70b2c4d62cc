import { rmSync } from 'node:fs';
import { afterAll, expect, it } from 'vitest';

import { Example, readLedger } from '../support/example.ts';
import { temporaryFolder } from '../support/providers.ts';

const folder = temporaryFolder();
afterAll(() => rmSync(folder, { recursive: true }));

it('books whole trips or nothing, over two kills', async () => {
  for (const trips of [5, 20]) {
    const killed = new Example('saga', '--folder', folder);
    await killed.printed(new RegExp(`trip-${trips}:`));
    expect(await killed.kill()).toBe('SIGKILL');
  }
  const last = new Example('saga', '--folder', folder);
  expect(await last.ended(), last.output).toBe('0');

  const booked = [...last.output.matchAll(/^(trip-\d+): (flight-.*)$/gm)].map(([, trip, flights]) => ({
    trip,
    flights: flights?.split(', '),
  }));
  const refused = [...last.output.matchAll(/^(trip-\d+): no seat left on (flight-\S+)$/gm)].map(([, trip, flight]) => ({
    trip,
    flight,
  }));
  expect(booked.length).toBeGreaterThan(0);
  expect(refused.length).toBeGreaterThan(0);
  expect(last.output).toContain(
    `${booked.length} of ${booked.length + refused.length} trips are booked, ${3 * booked.length} seats are taken`,
  );

  // The ledger itself shows the holder of each seat: the booked trips hold theirs, and no others do.
  const entries = readLedger(folder, 'seats.jsonl');
  const held = new Map<string, string>();
  for (const { flight, trip, what } of entries) {
    expect(held.get(flight), `${flight} is ${what}`).toBe(what === 'taken' ? undefined : trip);
    if (what === 'taken') held.set(flight, trip);
    else held.delete(flight);
  }
  const expected = booked.flatMap(({ trip, flights }) => flights?.map((flight) => [flight, trip]) ?? []);
  expect([...held].sort()).toEqual(expected.sort());
  expect(
    entries.some(({ what }) => what === 'given back'),
    'something was to be compensated',
  ).toBe(true);
});
