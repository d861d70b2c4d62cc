import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

import {
  type CargoPackage,
  CRATE_ARROWS,
  circles,
  crateViolations,
  importsOf,
  importViolations,
  roomViolations,
  strayImpls,
} from './support/arrows.ts';
import { circlesOf } from './support/circles.ts';
import { type RustFile, rustImports } from './support/rust-imports.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Returns the sources of a crate without its programs. */
function sourcesOf(crate: string): RustFile[] {
  const sources = join(root, 'crates', crate, 'src');
  return readdirSync(sources, { recursive: true, encoding: 'utf8' })
    .map((file) => file.split(sep).join('/'))
    .filter((file) => file.endsWith('.rs') && !file.startsWith('bin/'))
    .map((file) => ({ file, source: readFileSync(join(sources, file), 'utf8') }));
}

describe('the crates', () => {
  it('use each other, and crates of others, as the architecture allows', () => {
    const { packages } = JSON.parse(
      execFileSync('cargo', ['metadata', '--format-version', '1', '--no-deps', '--offline'], {
        cwd: root,
        encoding: 'utf8',
      }),
    ) as { packages: CargoPackage[] };
    expect(crateViolations(packages)).toEqual([]);
    expect(packages.map(({ name }) => name.replace('perdure-', '')).sort()).toEqual(Object.keys(CRATE_ARROWS).sort());
  });

  it('would be told of a wrong arrow', () => {
    const plant = (name: string, dependency: string, kind: string | null = null): string[] =>
      crateViolations([{ name, dependencies: [{ name: dependency, kind }] }]);
    expect(plant('perdure-engine', 'perdure-provider')).toEqual(['engine -> provider']);
    expect(plant('perdure-provider', 'perdure-provider-sqlite')).toEqual(['provider -> provider-sqlite']);
    expect(plant('perdure-runtime', 'perdure-provider-sqlite')).toEqual(['runtime -> provider-sqlite']);
    expect(plant('perdure-scheduler', 'perdure-engine', 'dev')).toEqual(['scheduler -> engine (dev)']);
    expect(plant('perdure-engine', 'tokio')).toEqual(['engine -> tokio']);
    expect(plant('perdure-engine', 'rusqlite', 'dev')).toEqual(['engine -> rusqlite']);
    expect(plant('perdure-runtime', 'napi-derive')).toEqual(['runtime -> napi-derive']);
    expect(plant('perdure-node', 'rusqlite')).toEqual(['node -> rusqlite']);
    expect(plant('perdure-brand-new', 'serde')).toEqual(['brand-new is not in CRATE_ARROWS']);
    // Only tests may use the contract.
    expect(plant('perdure-provider-sqlite', 'perdure-provider-contract')).toEqual([
      'provider-sqlite -> provider-contract',
    ]);
    expect(plant('perdure-provider-sqlite', 'perdure-provider-contract', 'dev')).toEqual([]);
    expect(plant('perdure-node', 'napi', 'build')).toEqual([]);
  });
});

describe('the files of each crate', () => {
  it('form no circle of more than two files', () => {
    const found = Object.keys(CRATE_ARROWS)
      .map((crate) => ({ crate, circles: circlesOf(rustImports(sourcesOf(crate))) }))
      .filter(({ circles }) => circles.length > 0);
    expect(found).toEqual([]);
  });

  it('would be told of a circle', () => {
    const lib = { 'lib.rs': 'mod a;\nmod b;\nmod c;\npub use a::A;' };
    const two = { 'a.rs': 'use crate::b::B;\npub struct A;', 'b.rs': 'use super::{a::A, c::{C as D}};\npub struct B;' };
    const plant = (files: Record<string, string>): string[][] =>
      circlesOf(rustImports(Object.entries({ ...lib, ...two, ...files }).map(([file, source]) => ({ file, source }))));
    const circle = [['a.rs', 'b.rs', 'c/mod.rs']];
    expect(plant({ 'c/mod.rs': 'pub struct C;' })).toEqual([]);
    expect(plant({ 'c/mod.rs': 'use crate::A;' })).toEqual(circle);
    expect(plant({ 'c/mod.rs': 'fn f(a: crate::A) {}' })).toEqual(circle);
    expect(plant({ 'c/mod.rs': 'use crate::a;\nfn f(a: a::A) {}' })).toEqual(circle);
    // A file that only names others uses nothing.
    const inner = { 'c/d.rs': 'use super::super::a::A;\npub struct D;' };
    expect(plant({ 'c/mod.rs': 'mod d;\npub use d::D;', ...inner })).toEqual([]);
    expect(plant({ 'c/mod.rs': 'mod d;\npub use d::D;\nstruct C(D);', ...inner })).toEqual([
      ['a.rs', 'b.rs', 'c/d.rs', 'c/mod.rs'],
    ]);
    const tests = '// use crate::A;\n\n#[cfg(test)]\nmod tests {\n    use crate::A;\n}\n';
    expect(plant({ 'c/mod.rs': tests })).toEqual([]);
  });
});

describe('the rooms of the runtime', () => {
  it('import each other in one direction', () => {
    const files = sourcesOf('runtime').filter(({ file }) => file !== 'lib.rs');
    expect(files.length).toBeGreaterThan(0);
    expect(files.flatMap(({ file, source }) => roomViolations(file, source))).toEqual([]);
    expect(strayImpls(files)).toEqual([]);
  });

  // Otherwise tokio polls them in a random order, and one seed of the simulator is more than one run.
  it('say that the branches of a select! are polled in their order', () => {
    const unordered = sourcesOf('runtime').filter(({ source }) => /\bselect! \{(?!\s*biased;)/.test(source));
    expect(unordered.map(({ file }) => file)).toEqual([]);
  });

  it('would be told of a wrong arrow', () => {
    expect(roomViolations('state/instance.rs', 'use crate::turn::Next;\n')).toEqual([
      'state/instance.rs -> turn: state is below turn',
    ]);
    expect(roomViolations('log.rs', 'fn a() { crate::shared::b() }')).toEqual([
      'log.rs -> shared: log is below shared',
    ]);
    expect(roomViolations('turn/turn.rs', 'use crate::{log::Level, session};\nuse crate::Runtime;')).toEqual([
      'turn/turn.rs -> session: turn is below session',
      'turn/turn.rs -> Runtime: not a room',
    ]);
    expect(roomViolations('turn/turn.rs', 'use crate::turn::a; // crate::session\nuse crate::log::{A, B};')).toEqual(
      [],
    );
    expect(roomViolations('log.rs', 'use crate::options::A;\n\n#[cfg(test)]\nmod tests {\n use crate::B;\n}')).toEqual(
      [],
    );
    expect(
      strayImpls([
        { file: 'turn/turn.rs', source: 'pub struct Turn {\n}\n\nimpl Turn {\n}\n\nimpl Drop for Other {\n}\n' },
        { file: 'session/a.rs', source: 'impl<T> Turn<T> {\n}\n' },
      ]),
    ).toEqual(['session/a.rs: impl Turn']);
  });
});

describe('the files of js/', () => {
  const imports = readdirSync(join(root, 'js'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .flatMap((file) => importsOf(relative(join(root, 'js'), file).split(sep).join('/'), readFileSync(file, 'utf8')));

  it('import each other as the architecture allows', () => {
    const { dependencies, peerDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Record<
      string,
      object
    >;
    expect(imports.length).toBeGreaterThan(0);
    expect(importViolations(imports, Object.keys({ ...dependencies, ...peerDependencies }))).toEqual([]);
  });

  it('form no circle of more than two files, types included', () => {
    expect(circles(imports)).toEqual([]);
  });

  it('would be told of a circle', () => {
    const plant = (files: Record<string, string>): string[][] =>
      circles(Object.entries(files).flatMap(([file, text]) => importsOf(file, text)));
    const two = { 'a.ts': "import type { B } from './b.ts';", 'b.ts': "import type { A } from './a.ts';" };
    expect(plant(two)).toEqual([]);
    const three = { 'b.ts': "import type { C } from './c.ts';", 'c.ts': "let a: import('./a.js').A;" };
    expect(plant({ ...two, ...three, 'd.ts': "import './a.ts';" })).toEqual([['a.ts', 'b.ts', 'c.ts']]);
  });

  it('would be told of a wrong arrow', () => {
    const plant = (files: Record<string, string>): string[] =>
      importViolations(
        Object.entries(files).flatMap(([file, text]) => importsOf(file, text)),
        ['devalue'],
      );
    const told = (file: string, text: string, message: RegExp): void => {
      expect(plant({ [file]: text })).toEqual([expect.stringMatching(message)]);
    };
    told('client/client.ts', "import { Core } from '../native/index.cjs';", /only binding\/addon\.ts/);
    told('client/client.ts', "const native = await import('../native/index.cjs');", /only binding\/addon\.ts/);
    told('values/codec.ts', "import type { Future } from '../driver/future.ts';", /values\/ is below driver\//);
    told('driver/fiber.ts', "import { core } from '../binding/addon.js';", /driver\/ is below binding\//);
    told('driver/scheduler.ts', "export * from '../runtime/runtime.ts';", /driver\/ is below runtime\//);
    told('driver/future.ts', "let client: import('../client/client.ts').Client;", /driver\/ is below client\//);
    told('logging/logger.ts', "import { trace } from '../tracing/trace.ts';", /logging\/ is below tracing\//);
    told('client/client.ts', "import { Runtime } from '../index.ts';", /only lists the public names/);
    told('client/client.ts', "import { run } from '../cli/program.ts';", /client\/ is below cli\//);
    told('client/client.ts', "import { a } from '../brand-new/a.ts';", /brand-new\/ is not in LAYERS/);
    told(
      'cli/commands/list.ts',
      "import { openSqlite } from '../../binding/store.ts';",
      /the command line is a client/,
    );
    told('client/client.ts', "import x from 'left-pad';", /not a dependency/);
    told('client/client.ts', "import x from '../../__test__/x.ts';", /outside of js/);
    told('index.ts', "export * from './dashboard/index.ts';", /loads nothing of its other entries/);
    told('client/client.ts', "import type { Sample } from '../dashboard/answers.ts';", /client\/ is below dashboard\//);
    told(
      'activity/activity-context.ts',
      "import { Client } from '../client/client.ts';",
      /activity\/ is below client\//,
    );
    told('dashboard/assets.ts', "import { render } from './page/page.tsx';", /built apart/);
    told('dashboard/page/app.tsx', "import { READS } from '../reads.ts';", /nothing but types/);
    told('dashboard/page/app.tsx', "import 'node:fs';", /runs in a browser/);
    told('dashboard/handler.ts', "import { render } from 'preact';", /not a dependency/);
    expect(plant({ 'a.ts': "import { b } from './b.js';", 'b.ts': "import { type A } from './a.ts';" })).toEqual([
      expect.stringMatching(/^cycle: a\.ts -> b\.ts -> a\.ts/),
    ]);
    expect(plant({ 'a.ts': "import './a.ts';" })).toEqual([expect.stringMatching(/^cycle: a\.ts -> a\.ts/)]);
    expect(
      plant({
        'a.ts': "import { b } from './b.ts'; import 'node:fs'; import 'devalue';",
        'b.ts': "import type { A } from './a.ts';",
        'binding/addon.ts': "import { Core } from '../native/index.cjs'; import { trace } from '../tracing/trace.ts';",
        'activity/activity-context.ts': "import type { Client } from '../client/client.ts';",
        'values/codec.ts': "import { PerdureError } from '../errors/errors.ts';",
      }),
    ).toEqual([]);
  });
});
