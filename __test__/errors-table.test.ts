// The table of errors in the guide is complete: every class that is exported has its row, with the code that it has and each of its fields.

import { readFileSync } from 'node:fs';

import * as perdure from 'perdure';
import * as dashboard from 'perdure/dashboard';
import * as testing from 'perdure/testing';
import { expect, it } from 'vitest';

const { PerdureError, RetryAfterError } = perdure;

type Class = abstract new (...args: never[]) => perdure.PerdureError;

const exported: Record<string, unknown> = { ...dashboard, ...testing, ...perdure };
const classes = Object.entries(exported).filter((entry): entry is [string, Class] => {
  const [, value] = entry;
  return typeof value === 'function' && value.prototype instanceof PerdureError;
});

/** Every field that any of them is made with. */
const FIELDS = {
  ...{ instanceId: 'i', orchestrationName: 'o', activityName: 'a', attempt: 1, kind: 'activity', missing: 'x', version: '1', known: [], path: 'p', timeoutMs: 1 },
  ...{ called: 'c', instead: 'd', report: {}, limit: 'l', max: 1, retryable: true, outcome: 'unknown', found: 1, supported: 2 },
};

const ROW = /^\| `(\w+)` \| `([A-Z_]+)` \| (.+) \|$/gm;
const rows = [...readFileSync(new URL('../docs/errors.md', import.meta.url), 'utf8').matchAll(ROW)].map(([, name = '', code = '', text = '']) => ({ name, code, text }));

it.each(classes)('%s is in the table, with its code and its fields', (name, type) => {
  const error = Reflect.construct(type as never, (type as unknown) === RetryAfterError ? [1_000] : ['why', FIELDS]) as perdure.PerdureError;
  const found = rows.filter((row) => row.name === name);
  expect(found.map(({ code }) => code)).toEqual([error.code]);
  const fields = Object.keys(error).filter((field) => field !== 'code' && (error as unknown as Record<string, unknown>)[field] !== undefined);
  expect(fields.filter((field) => !found[0]?.text.includes(`\`${field}\``))).toEqual([]);
});

it('names no class that there is not', () => {
  const known = ['PerdureError', ...classes.map(([name]) => name)];
  expect(rows.map(({ name }) => name).filter((name) => !known.includes(name))).toEqual([]);
  expect(classes.length).toBeGreaterThan(15);
});
