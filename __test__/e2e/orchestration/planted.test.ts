// Bugs planted into entities, locks and tokens: the checks find each of them, and nothing in the package as it is.

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

import { root } from '../../support/process.ts';

/** Bugs by name: the text of the built package and the one in its place, and the check that finds the bug. */
const BUGS: Record<string, { readonly find: string; readonly put: string; readonly check: string }> = {
  'an entity has two writers': {
    find: 'if (before !== void 0) yield* before;',
    put: '',
    check: 'each add is kept',
  },
  'a handler that throws changes the state': {
    find: 'includes("state") ? ctx.state.get(STATE)',
    put: 'includes("state") ? (globalThis.shared ??= ctx.state.get(STATE))',
    check: 'a handler that throws changes nothing',
  },
  'a lock has two holders': {
    find: 'if (this.#holders.length >= (first.permits ?? 1)) break;',
    put: '',
    check: 'one block at a time has the lock',
  },
  'a lock is not freed': {
    find: 'for (const [n, lock] of asked.entries()) unlock(ctx, lock, holder, n < answered);',
    put: '',
    check: 'a lock is freed by a termination',
  },
  'a lock is not freed before its orchestration ends': {
    find: '} finally {\n\t\trelease();\n',
    put: '} finally {\n',
    check: 'a lock is freed by the end of its block',
  },
  'a lock is not freed by an error': {
    find:
      'return (yield* ctx.race([ctx.spawn(block), lost], { cancelLosers: true })).value;\n' +
      '\t} finally {\n\t\trelease();\n',
    put:
      'const first = yield* ctx.race([ctx.spawn(block), lost], { cancelLosers: true });\n' +
      'release();\nreturn first.value;\n\t} finally {\n',
    check: 'a lock is freed by an error',
  },
  'a token needs no secret': {
    find: 'if (!isSame(property(answer, "id"), id)) throw noToken();',
    put: '',
    check: 'a token needs its secret',
  },
};

const PROGRAM = join(root, '__test__/e2e/orchestration/planted.mjs');

/** Runs a check in a process of its own. Returns its exit code and what it wrote to stderr. */
function run(check: string, planted?: { readonly find: string; readonly put: string }) {
  const loader = join(root, '__test__/support/planted-loader.mjs');
  const env = { ...process.env, NODE_OPTIONS: '', ...(planted && { PERDURE_TEST_PLANTED: JSON.stringify(planted) }) };
  const { status, stderr } = spawnSync(process.execPath, ['--import', loader, PROGRAM, check], {
    cwd: root,
    env,
    encoding: 'utf8',
  });
  return { status, stderr };
}

describe('planted bugs', () => {
  const checks = [...new Set(Object.values(BUGS).map(({ check }) => check))];

  it('are there for each check of the program', () => {
    const source = readFileSync(PROGRAM, 'utf8');
    const defined = [...source.matchAll(/^ {2}async '(.+)'\(\) \{$/gm)].map(([, check]) => check);
    expect(defined.toSorted()).toEqual(checks.toSorted());
  });

  it.each(checks)('%s', (check) => {
    expect(run(check)).toEqual({ status: 0, stderr: '' });
  });

  it.each(Object.entries(BUGS))('found: %s', (_name, { check, ...planted }) => {
    const { status, stderr } = run(check, planted);
    expect(stderr).toContain('AssertionError');
    expect(status).toBe(1);
  });
});
