// The published package: its contents, and its use where it is installed.

import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, relative, resolve, sep } from 'node:path';
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { rolldown } from 'rolldown';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

import { importsOf } from '../support/arrows.ts';
import { parsePage } from '../support/docs.ts';
import { root } from '../support/process.ts';
import { install, type Manifest, manifestOf, pack } from './installed.ts';
import { runtimes } from './runtimes.ts';

vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

/** The limit of the size of the packed root package. That of an addon is checked when it is published. */
const PACKED_MAX_BYTES = 1_250_000;

const clone = manifestOf(root);
const folder = mkdtempSync(join(tmpdir(), 'perdure-package-'));
afterAll(() => rmSync(folder, { recursive: true }));

const app = join(folder, 'app');
const installed = join(app, 'node_modules/perdure');
let tarballs: string[];
let published: Manifest;
beforeAll(() => {
  tarballs = pack(join(folder, 'packages'));
  install(app, tarballs);
  published = manifestOf(installed);
});

describe('the packages', () => {
  it('are that of the platform and, last, the root package, of a limited size', () => {
    expect(tarballs.map((file) => basename(file).replace(`-${clone.version}.tgz`, ''))).toEqual([
      expect.stringMatching(/^perdure-\w+-\w+/),
      'perdure',
    ]);
    expect(statSync(tarballs.at(-1) as string).size).toBeLessThan(PACKED_MAX_BYTES);
  });

  it('name each other: one optional dependency for each target, of the same version', () => {
    expect(Object.keys(published.optionalDependencies ?? {})).toHaveLength(clone.napi?.targets.length ?? 0);
    for (const [name, version] of Object.entries(published.optionalDependencies ?? {})) {
      expect(version).toBe(clone.version);
      expect(manifestOf(join(root, 'npm', name.replace('perdure-', ''))).version).toBe(clone.version);
    }
  });

  it('hold the expected files and no others', () => {
    const files = readdirSync(installed, { recursive: true, encoding: 'utf8' }).map((file) =>
      file.split(sep).join('/'),
    );
    expect(files).toEqual(
      expect.arrayContaining([
        'LICENSE',
        'README.md',
        'CHANGELOG.md',
        'THIRD-PARTY.md',
        'dist/index.js',
        'dist/native/index.cjs',
      ]),
    );
    expect(files.filter((file) => /\.node$|\.tsbuildinfo$|internal\.|__test__|^js\/native/.test(file))).toEqual([]);
    for (const file of ['LICENSE', 'THIRD-PARTY.md']) expect(readdirSync(`${installed}-${platform()}`)).toContain(file);
    expect(published).not.toHaveProperty('scripts');
    expect(published).not.toHaveProperty('devDependencies');
  });

  it('lead from each line of the code to its source, which is there', () => {
    // The code for browsers is minified, and its sources are not in the package.
    const ours = scripts().filter((file) => !file.includes(join('dashboard', 'page')));
    for (const source of ours.flatMap(sourcesOf)) expect(existsSync(source), source).toBe(true);
  });

  it('please publint', async () => {
    const { messages } = await publint({ pkgDir: installed, pack: false, strict: true });
    expect(messages.map((message) => formatMessage(message, published as never, { color: false }))).toEqual([]);
  });

  it('have types that are right wherever they are found', async () => {
    const result = await checkPackage(
      createPackageFromTarballData(new Uint8Array(readFileSync(tarballs.at(-1) ?? ''))),
    );
    if (!result.types) throw new Error('there are no types');
    // Each Node that we support can `require` an ES module, and `module: nodenext` knows that. `node16` does not. A
    // resolution that knows nothing of `exports` (node10) finds the root entry and no other.
    const expected = new Set(['CJSResolvesToESM', 'NoResolution node10']);
    const found = result.problems.map(
      (problem) => `${problem.kind}${problem.kind === 'NoResolution' ? ` ${problem.resolutionKind}` : ''}`,
    );
    expect(found.filter((problem) => !expected.has(problem))).toEqual([]);
  });
});

describe('an entry of the package', () => {
  it('loads the modules that its source imports, and those of `perdure`', () => {
    const importedBy = (source: string) =>
      [
        ...reached(join(root, source), (text) =>
          importsOf('', text)
            .filter(({ isType }) => !isType)
            .map(({ to }) => to),
        ),
      ].map((file) => relative(root, file));
    // These two entries load no optional packages.
    const main = ['./dist/index.js', './dist/orchestration/free.js'];
    const core = importedBy('js/index.ts');
    const entries = Object.values(clone.exports).flatMap((target) =>
      typeof target === 'string' ? [] : [target.default],
    );
    expect(entries.length).toBeGreaterThan(0);
    for (const entry of [...entries, ...Object.values(clone.bin ?? {})]) {
      const source = entry.replace(/^\.\/dist\//, 'js/').replace(/\.js$/, '.ts');
      const loaded = reached(join(installed, entry), (text) =>
        [...text.matchAll(/^(?:import|export) (?:.* from )?"(\..*)";$/gm)].map(([, to = '']) => to),
      );
      const sources = [...loaded].flatMap(sourcesOf).map((file) => relative(installed, file));
      const names = [...importedBy(source), ...(main.includes(entry) ? [] : core)];
      expect(
        sources.filter((name) => !names.includes(name)),
        `${entry} loads`,
      ).toEqual([]);
    }
  });

  it('exports the names of its types, and no other', () => {
    const entries = Object.entries(published.exports).flatMap(([entry, target]) =>
      typeof target === 'string' ? [] : [{ entry, ...target }],
    );
    const program = ts.createProgram({
      rootNames: entries.map(({ types }) => join(installed, types)),
      options: {
        module: ts.ModuleKind.NodeNext,
        moduleResolution: ts.ModuleResolutionKind.NodeNext,
        skipLibCheck: true,
      },
    });
    const checker = program.getTypeChecker();
    for (const { entry, types, default: file } of entries) {
      const source = program.getSourceFile(join(installed, types));
      const module = source && checker.getSymbolAtLocation(source);
      const typed = checker.getExportsOfModule(module!).filter((symbol) => {
        const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
        return (
          (target.flags & ts.SymbolFlags.Value) !== 0 && !symbol.declarations?.some(ts.isTypeOnlyExportDeclaration)
        );
      });
      const exported = /^export \{(.*)\};$/m
        .exec(readFileSync(join(installed, file), 'utf8'))?.[1]
        ?.split(',')
        .map((name) => name.replace(/.* as /, '').trim());
      expect(exported?.filter((name) => name !== '').sort(), entry).toEqual(typed.map(({ name }) => name).sort());
    }
  });

  /** Returns a file and all files that it imports, directly or indirectly. */
  function reached(file: string, importsIn: (text: string) => string[]): Set<string> {
    const seen = new Set([file]);
    for (const from of seen) {
      for (const to of importsIn(readFileSync(from, 'utf8')))
        if (/^\..*\.[jt]s$/.test(to)) seen.add(resolve(from, '..', to));
    }
    return seen;
  }
});

describe.each(runtimes())('the installed package on $name', ({ command }) => {
  const run = (file: string, text: string): string => {
    writeFileSync(join(app, file), text);
    for (const name of readdirSync(app)) if (name.startsWith('orders.db')) rmSync(join(app, name));
    return execFileSync(command, [file], {
      cwd: app,
      encoding: 'utf8',
      timeout: 60_000,
      env: { ...process.env, NODE_OPTIONS: '' },
    });
  };

  // Bun prints an object in its own way.
  const SHOW = 'console.log = (value) => process.stdout.write(`${inspect(value)}\\n`);\n';

  it('runs the first program of the README', () => {
    const { code, output } = firstProgram();
    expect(run('program.mjs', `import { inspect } from 'node:util';\n${SHOW}${code}`)).toBe(output);
  });

  it('runs it with require, too', () => {
    const { code, output } = firstProgram();
    const [first = '', ...rest] = code.split('\n');
    expect(first).toMatch(/^import \{.*\} from 'perdure';$/);
    const required = first.replace('import', 'const').replace(/ from ('perdure');/, ' = require($1);');
    expect(
      run(
        'program.cjs',
        `const { inspect } = require('node:util');\n${SHOW}${required}\n(async () => {\n${rest.join('\n')}\n})();\n`,
      ),
    ).toBe(output);
  });

  it('runs with worker threads', () => {
    writeFileSync(
      join(app, 'work.mjs'),
      `import { threadId } from 'node:worker_threads';
      import { defineActivity, defineOrchestration } from 'perdure';
      export const where = defineActivity('where', async () => threadId);
      export const ask = defineOrchestration('ask', function* (ctx) {
        const threads = yield* ctx.all(Array.from({ length: 20 }, () => ctx.call(where)));
        return { isTime: Date.now() === ctx.now(), threads: threads.every(Number.isInteger) };
      });`,
    );
    const output = run(
      'threads.mjs',
      `import { Client, Runtime, SqliteProvider } from 'perdure';
      const provider = await SqliteProvider.inMemory();
      const runtime = new Runtime(provider, { threads: 1, modules: [new URL('./work.mjs', import.meta.url)] });
      await runtime.start();
      const client = new Client(provider);
      await client.startOrchestration('a', 'ask');
      process.stdout.write(JSON.stringify((await client.waitForOrchestration('a', '30s')).output));
      await runtime.shutdown();
      await provider.close();`,
    );
    expect(JSON.parse(output)).toEqual({ isTime: true, threads: true });
  });

  it('has commands that run', () => {
    for (const name of Object.keys(published.bin ?? {})) {
      const path = join(installed, published.bin?.[name] ?? '');
      expect(
        execFileSync(command, [path, '--version'], { cwd: app, encoding: 'utf8', timeout: 60_000 }).trim(),
        name,
      ).toBe(published.version);
    }
  });

  it('says in a bundle that it has to be left out', async () => {
    writeFileSync(join(app, 'bundled.mjs'), "import { Runtime } from 'perdure';\nconsole.log(Runtime);\n");
    const bundle = await rolldown({ input: join(app, 'bundled.mjs'), platform: 'node', logLevel: 'silent' });
    await bundle.write({ file: join(app, 'bundle/out.mjs') });
    await bundle.close();
    const { status, stderr } = spawnSync(command, [join(app, 'bundle/out.mjs')], { encoding: 'utf8', timeout: 60_000 });
    expect(status).toBe(1);
    expect(stderr).toContain("serverExternalPackages: ['perdure']");
  });

  it('loads every entry', () => {
    // An entry that needs a peer dependency works only if that peer is installed.
    const peers = Object.keys(published.peerDependencies ?? {});
    const entries = Object.keys(published.exports).filter((entry) => !entry.endsWith('.json'));
    const script = `
      const failed = [];
      for (const entry of ${JSON.stringify(entries)}) {
        try { await import('perdure' + entry.slice(1)); }
        catch (error) { failed.push(entry + ': ' + error.message); }
      }
      process.stdout.write(JSON.stringify(failed));`;
    const failed = JSON.parse(run('entries.mjs', script)) as string[];
    expect(failed.filter((message) => !peers.some((peer) => message.includes(`'${peer}'`)))).toEqual([]);
  });
});

describe('its types', () => {
  it.each([
    ['an ES module', 'typed.mts', ts.ModuleKind.NodeNext, ts.ModuleResolutionKind.NodeNext],
    ['CommonJS', 'typed.cts', ts.ModuleKind.NodeNext, ts.ModuleResolutionKind.NodeNext],
    ['CommonJS of a fixed year', 'typed.cts', ts.ModuleKind.Node20, ts.ModuleResolutionKind.Node16],
    ['a module for a bundler', 'typed.mts', ts.ModuleKind.ESNext, ts.ModuleResolutionKind.Bundler],
  ])('are found from %s', (_, file, module, moduleResolution) => {
    const program = `
      import { Client, defineActivity, defineOrchestration, Runtime, SqliteProvider } from 'perdure';
      import { sleep } from 'perdure/orchestration';
      import { replay, type ReplayedInstance } from 'perdure/testing';
      const charge = defineActivity('charge', async (_, order: { total: number }) => ({ charged: order.total }));
      const order = defineOrchestration('order', function* (ctx, input: { total: number }) {
        yield* sleep('1s');
        return (yield* ctx.call(charge, input)).charged;
      });
      export async function main(): Promise<ReplayedInstance> {
        const provider = await SqliteProvider.inMemory();
        new Runtime(provider).register(charge, order);
        const client = new Client(provider);
        const total: number = await (await client.start(order, { total: 12 })).result();
        // @ts-expect-error: it is a number
        const wrong: string = await (await client.start(order, { total })).result();
        return replay(await client.exportHistory(wrong), order);
      }`;
    const path = join(app, file);
    writeFileSync(path, program);
    const compiled = ts.createProgram({
      rootNames: [path],
      options: {
        strict: true,
        noEmit: true,
        target: ts.ScriptTarget.ES2023,
        lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts'],
        module,
        moduleResolution,
        types: ['node'],
        typeRoots: [join(root, 'node_modules/@types')],
        // Checking the declarations once is enough.
        skipLibCheck: file === 'typed.cts' || moduleResolution === ts.ModuleResolutionKind.Bundler,
      },
    });
    const said = ts
      .getPreEmitDiagnostics(compiled)
      .map(({ messageText, file }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`);
    expect(said).toEqual([]);
  });
});

/** The first program of the README without its types, and the text that it prints. */
function firstProgram(): { code: string; output: string } {
  const { blocks } = parsePage('README.md', readFileSync(join(root, 'README.md'), 'utf8'));
  const [program, text] = blocks.slice(blocks.findIndex(({ kind }) => kind === 'ts'));
  const { outputText } = ts.transpileModule(program?.code.join('\n') ?? '', {
    compilerOptions: { target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.ESNext },
  });
  return { code: `${outputText}\nawait runtime.shutdown();\n`, output: `${text?.code.join('\n')}\n` };
}

/** Returns the sources of a file of code, or none if the file only re-exports others. */
function sourcesOf(file: string): string[] {
  if (!existsSync(`${file}.map`)) {
    expect(
      readFileSync(file, 'utf8')
        .split('\n')
        .filter((line) => !/^(import|export) .*;$|^$/.test(line)),
      file,
    ).toEqual([]);
    return [];
  }
  const { sources } = JSON.parse(readFileSync(`${file}.map`, 'utf8')) as { sources: string[] };
  return sources.map((source) => resolve(file, '..', source));
}

/** Returns the published files of code. */
function scripts(): string[] {
  const dist = join(installed, 'dist');
  return readdirSync(dist, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.js'))
    .map((file) => join(dist, file));
}

/** Returns the platform whose package was packed. */
function platform(): string {
  return basename(tarballs[0] ?? '')
    .replace(/^perdure-/, '')
    .replace(`-${clone.version}.tgz`, '');
}
