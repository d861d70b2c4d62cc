// The plugin as it is installed, and its facts about the API.

import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ESLint } from 'eslint';
import { publint } from 'publint';
import ts from 'typescript';
import { afterAll, describe, expect, it } from 'vitest';

import built from '../../eslint-plugin/dist/index.js';
import type declared from '../../eslint-plugin/index.d.ts';
import { FUTURE_METHODS } from '../../eslint-plugin/src/facts.ts';
import { root } from '../support/process.ts';
import { temporaryFolder } from '../support/providers.ts';

/** The plugin with the types that its package declares. */
const plugin = built as unknown as typeof declared;

const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const manifestOf = (folder: string) => JSON.parse(read(join(folder, 'package.json')));

describe('the facts', () => {
  it('name every method of the context that returns a future', () => {
    const path = join(root, 'js/orchestration/orchestration-context.ts');
    const { options } = ts.parseJsonConfigFileContent(
      { extends: join(root, 'tsconfig.json'), files: [] },
      ts.sys,
      root,
    );
    const program = ts.createProgram([path], { ...options, noEmit: true });
    const checker = program.getTypeChecker();
    const context = program
      .getSourceFile(path)
      ?.statements.find((one) => ts.isInterfaceDeclaration(one) && one.name.text === 'OrchestrationContext');
    if (context === undefined) throw new Error('there is no context');
    const isFuture = /^(?:Future|FiberFuture|Deferred|Token)</;
    const returnsFuture = (method: ts.Symbol): boolean =>
      checker
        .getTypeOfSymbol(method)
        .getCallSignatures()
        .some((signature) => isFuture.test(checker.typeToString(signature.getReturnType())));
    const methods = checker
      .getTypeAtLocation(context)
      .getProperties()
      .filter(returnsFuture)
      .map(({ name }) => name);
    expect([...FUTURE_METHODS].sort()).toEqual([...new Set(methods)].sort());
  });
});

describe('the package', () => {
  it('has the version of perdure, and the peers that the repository tests it with', () => {
    const { version, peerDependencies } = manifestOf('eslint-plugin');
    expect(version).toBe(manifestOf('.').version);
    expect(plugin.meta).toMatchObject({ name: 'eslint-plugin-perdure', version });
    expect(Object.keys(manifestOf('.').devDependencies)).toEqual(expect.arrayContaining(Object.keys(peerDependencies)));
  });

  it('pleases publint', async () => {
    const { messages } = await publint({ pkgDir: join(root, 'eslint-plugin'), pack: false, strict: true });
    expect(messages.map(({ code }) => code)).toEqual([]);
  });

  it('turns every rule on, and documents it where its link leads', () => {
    const readme = read('eslint-plugin/README.md');
    const { rules, configs } = plugin;
    expect(Object.keys(configs.recommended.rules ?? {}).sort()).toEqual(
      Object.keys(rules ?? {})
        .map((rule) => `perdure/${rule}`)
        .sort(),
    );
    for (const [name, rule] of Object.entries(rules ?? {})) {
      expect(readme).toContain(`\n### ${name}\n`);
      expect((rule as { meta: { docs: { url: string } } }).meta.docs.url).toMatch(new RegExp(`#${name}$`));
    }
  });
});

describe('in an application', () => {
  const folder = temporaryFolder();
  afterAll(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'node_modules'));
  for (const [name, target] of [
    ['perdure', '.'],
    ['eslint-plugin-perdure', 'eslint-plugin'],
    ['@typescript-eslint', 'node_modules/@typescript-eslint'],
  ] as const)
    symlinkSync(join(root, target), join(folder, 'node_modules', name), 'junction');

  const put = (name: string, ...lines: string[]) => writeFileSync(join(folder, name), `${lines.join('\n')}\n`);
  put('package.json', '{ "type": "module" }');
  put(
    'tsconfig.json',
    JSON.stringify({
      compilerOptions: { module: 'NodeNext', strict: true, lib: ['ES2023', 'DOM'] },
      include: ['*.ts'],
    }),
  );
  put(
    'eslint.config.js',
    "import * as parser from '@typescript-eslint/parser';",
    "import perdure from 'eslint-plugin-perdure';",
    'export default [',
    '  perdure.configs.recommended,',
    "  { files: ['*.ts'], languageOptions: { parser, parserOptions: { projectService: true } } },",
    '];',
  );
  const app = [
    "import { defineActivity, defineOrchestration } from 'perdure';",
    "const price = defineActivity('price', async (ctx, fruit) => (await fetch(fruit)).status);",
    "export const order = defineOrchestration('order', function* (ctx, fruit) {",
    '  ctx.call(price, fruit);',
    '  const started = Date.now();',
    "  if (process.env.FREE) yield fetch('/free');",
    '  return { price: ctx.call(price, fruit), started };',
    '});',
  ];
  put('app.js', ...app);
  put('app.ts', ...app.map((line) => line.replace('fruit)', 'fruit: string)')).slice(0, 3), ...app.slice(3));
  put(
    'fine.js',
    ...app.slice(0, 1),
    "export default defineOrchestration('fine', function* (ctx) { yield* ctx.sleep(1); });",
  );

  it('ESLint reports the lines of a JavaScript and a TypeScript file, and fails', () => {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [join(root, 'node_modules/eslint/bin/eslint.js'), '--format', 'json', 'app.js', 'app.ts', 'fine.js'],
      { cwd: folder, encoding: 'utf8' },
    );
    expect(stderr).toBe('');
    expect(status).toBe(1);
    const reported = (JSON.parse(stdout) as ESLint.LintResult[]).map(({ messages }) =>
      messages.map(({ line, ruleId }) => `${line} ${ruleId}`),
    );
    const expected = [
      '2 perdure/require-signal',
      '4 perdure/no-forgotten-yield',
      '5 perdure/no-nondeterminism',
      '6 perdure/no-nondeterminism',
      '6 perdure/no-promises',
      '6 perdure/no-nondeterminism',
      '7 perdure/no-forgotten-yield',
    ];
    expect(reported.map((lines) => lines.sort())).toEqual([expected.sort(), expected.sort(), []]);
  });

  it('writes `yield*` where it is asked to', async () => {
    const eslint = new ESLint({
      overrideConfigFile: true,
      overrideConfig: plugin.configs.recommended,
    });
    const [result] = await eslint.lintText("defineOrchestration('a', function* (ctx) { ctx.sleep(1); });");
    expect(result?.messages[0]?.suggestions?.[0]?.fix.text).toBe('yield* ');
  });
});

it('finds nothing in the examples', async () => {
  const eslint = new ESLint({
    cwd: root,
    overrideConfigFile: true,
    overrideConfig: plugin.configs.recommended,
  });
  const results = await eslint.lintFiles(['examples/**/*.mjs']);
  expect(results.length).toBeGreaterThan(5);
  expect(results.flatMap(({ filePath, messages }) => messages.map(({ message }) => `${filePath}: ${message}`))).toEqual(
    [],
  );
});
