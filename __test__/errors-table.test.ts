// The table of errors in the guide is complete. Every exported class has a row with its code and each of its fields. So
// has every code of errors that have no class but `PerdureError`.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as perdure from 'perdure';
import * as dashboard from 'perdure/dashboard';
import * as testing from 'perdure/testing';
import ts from 'typescript';
import { expect, it } from 'vitest';

import { rejection } from './support/async.ts';

const { PerdureError, RetryAfterError } = perdure;

type Class = abstract new (...args: never[]) => perdure.PerdureError;

const exported: Record<string, unknown> = { ...dashboard, ...testing, ...perdure };
const classes = Object.entries(exported).filter((entry): entry is [string, Class] => {
  const [, value] = entry;
  return typeof value === 'function' && value.prototype instanceof PerdureError;
});

/** Every field that any of the errors is made with. */
const FIELDS = {
  ...{
    instanceId: 'i',
    orchestrationName: 'o',
    activityName: 'a',
    attempt: 1,
    kind: 'activity',
    missing: 'x',
    version: '1',
    known: [],
    path: 'p',
    timeoutMs: 1,
  },
  ...{
    called: 'c',
    instead: 'd',
    report: {},
    limit: 'l',
    max: 1,
    retryable: true,
    outcome: 'unknown',
    found: 1,
    supported: 2,
    expected: 'o',
    actual: 'p',
    queue: 'q',
  },
};

const ROW = /^\| `(\w+)` \| `([A-Z_]+)` \| (.+) \|$/gm;
const rows = [...readFileSync(new URL('../docs/errors.md', import.meta.url), 'utf8').matchAll(ROW)].map(
  ([, name = '', code = '', text = '']) => ({ name, code, text }),
);

it.each(classes)('%s is in the table, with its code and its fields', (name, type) => {
  const error = Reflect.construct(
    type as never,
    (type as unknown) === RetryAfterError ? [1_000] : ['why', FIELDS],
  ) as perdure.PerdureError;
  const found = rows.filter((row) => row.name === name);
  expect(found.map(({ code }) => code)).toEqual([error.code]);
  const fields = Object.keys(error).filter(
    (field) => field !== 'code' && (error as unknown as Record<string, unknown>)[field] !== undefined,
  );
  expect(fields.filter((field) => !found[0]?.text.includes(`\`${field}\``))).toEqual([]);
});

/** Yields each `new PerdureError(…)` of js/, with its code. */
function* madeWithCode(): Generator<{ at: string; code: string | undefined }> {
  for (const entry of readdirSync(new URL('../js', import.meta.url), { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !entry.name.endsWith('.ts')) continue;
    const text = readFileSync(join(entry.parentPath, entry.name), 'utf8');
    const source = ts.createSourceFile(entry.name, text, ts.ScriptTarget.Latest, true);
    const found: ts.NewExpression[] = [];
    const visit = (node: ts.Node): void => {
      if (ts.isNewExpression(node) && node.expression.getText() === 'PerdureError') found.push(node);
      ts.forEachChild(node, visit);
    };
    visit(source);
    for (const node of found) {
      const code = node.arguments?.[1];
      const named =
        code === undefined
          ? undefined
          : new RegExp(`^(?:export )?const ${code.getText()} = '(\\w+)';$`, 'm').exec(text)?.[1];
      yield {
        at: `${entry.name}: ${node.getText()}`,
        code: code !== undefined && ts.isStringLiteral(code) ? code.text : named,
      };
    }
  }
}

it('has every code that an error of no other class is made with', () => {
  const made = [...madeWithCode()];
  expect(made.map(({ code }) => code)).toEqual(expect.arrayContaining(['ADDON_NOT_LOADED', 'DEADLOCK']));
  const known = rows.filter(({ name }) => name === 'PerdureError').map(({ code }) => code);
  expect(made.filter(({ code }) => code === undefined || !known.includes(code))).toEqual([]);
});

it('lists the fields of errors about an instance in the wrong state', async () => {
  await using provider = await perdure.SqliteProvider.inMemory();
  const client = new perdure.Client(provider);
  await client.startOrchestration('i', 'nobody registers this');
  await client.terminateInstance('i');
  for (const call of [client.suspend('i'), client.resume('i'), client.raiseEvent('i', 'go')]) {
    const { code, ...fields } = await rejection<perdure.PerdureError>(call);
    const row = rows.find((one) => one.code === code);
    expect(row?.name).toBe('RuntimeStateError');
    expect(Object.keys(fields).sort()).toEqual(['instanceId', 'status']);
    expect(Object.keys(fields).filter((field) => !row?.text.includes(`\`${field}\``))).toEqual([]);
  }
});

it('names no class that there is not', () => {
  const known = ['PerdureError', ...classes.map(([name]) => name)];
  expect(rows.map(({ name }) => name).filter((name) => !known.includes(name))).toEqual([]);
  expect(classes.length).toBeGreaterThan(15);
});
