// The simulator's seeds of a test run and of a night, which never overlap, and the figures in the guide about such
// runs.

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { seedsOfCommit, seedsOfDay } from '../scripts/simulate.mjs';

describe('seeds of the simulator', () => {
  it('are 2 000 for a commit, the same each time, and others for another commit', () => {
    const [first, end] = seedsOfCommit('2de403f');
    expect(end - first).toBe(2_000);
    expect(seedsOfCommit('2de403f')).toEqual([first, end]);
    const others = Array.from({ length: 1_000 }, (_, i) => seedsOfCommit(`commit ${i}`)[0]);
    expect(new Set([first, ...others]).size).toBe(1_001);
    expect(others.every((other) => Math.abs(other - first) >= 2_000 && Number.isSafeInteger(other + 2_000))).toBe(true);
  });

  it('are 1 000 000 for a day, and follow those of the day before', () => {
    const [first, end] = seedsOfDay('2026-11-23');
    expect(end - first).toBe(1_000_000);
    expect(seedsOfDay('2026-11-24')[0]).toBe(end);
    // Seeds that every run uses lie before those of the first day. Seeds that commits draw lie behind those of the last
    // day.
    expect(seedsOfDay('1970-01-01')[0]).toBeGreaterThan(2_000);
    expect(seedsOfDay('9999-12-31')[1]).toBeLessThan(1e13);
  });

  it('refuses an invalid day', () => {
    expect(() => seedsOfDay('yesterday')).toThrow("'yesterday' is no day like 2026-01-31");
    expect(() => seedsOfDay('2026-02-31')).toThrow('is no day');
  });
});

describe('docs/reliability.md', () => {
  it('names the commit that each figure was measured on', () => {
    const guide = readFileSync(new URL('../docs/reliability.md', import.meta.url), 'utf8');
    const rows = /^\| what \| commit \|.*\n\|[-|]+\n((?:\|.*\n)+)/m.exec(guide)?.[1]?.trim().split('\n') ?? [];
    expect(rows.length).toBeGreaterThan(3);
    for (const row of rows) expect(row).toMatch(/^\| [^|]+ \| `[0-9a-f]{7,}` \| /);
  });
});
