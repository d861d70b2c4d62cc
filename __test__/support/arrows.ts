import { posix } from 'node:path';
import ts from 'typescript';

import { circlesOf } from './circles.ts';

// The rules of ARCHITECTURE.md about dependencies as tables, and functions from facts to the list of violations.

const OURS = 'perdure-';

/** Crates of ours that each crate may use. A crate that is not here fails the test: decide on its place. */
export const CRATE_ARROWS: Record<string, { uses: string[]; testsUse?: string[] }> = {
  node: {
    uses: [
      'runtime',
      'provider',
      'provider-encoded',
      'provider-memory',
      'provider-sqlite',
      'provider-postgres',
      'engine',
    ],
  },
  runtime: { uses: ['engine', 'provider', 'scheduler'], testsUse: ['provider-memory'] },
  'provider-memory': { uses: ['provider', 'engine'], testsUse: ['provider-contract'] },
  'provider-sqlite': { uses: ['provider', 'engine'], testsUse: ['provider-contract'] },
  'provider-postgres': { uses: ['provider', 'engine'], testsUse: ['provider-contract'] },
  'provider-encoded': { uses: ['provider', 'engine'], testsUse: ['provider-contract', 'provider-memory'] },
  'provider-contract': { uses: ['provider', 'engine'] },
  simulator: { uses: ['runtime', 'provider', 'provider-memory', 'provider-postgres', 'provider-sqlite', 'engine'] },
  'fuzz-targets': { uses: ['runtime', 'provider', 'provider-postgres', 'engine'] },
  provider: { uses: ['engine'] },
  engine: { uses: [] },
  scheduler: { uses: [] },
};

/** Crates of others that only these crates of ours may use. `*` stands for any end of the name. */
export const ONLY_USED_BY: Record<string, string[]> = {
  'napi*': ['node'],
  rusqlite: ['provider-sqlite'],
  'libsqlite3-sys': ['provider-sqlite'],
  // The simulator drops the schemas that it has run on.
  'tokio-postgres*': ['provider-postgres', 'simulator'],
  'deadpool*': ['provider-postgres'],
  'rustls*': ['provider-postgres'],
  'crossbeam*': ['scheduler'],
};

/** Crates that these crates may not use: the engine is a pure function, the scheduler knows no runtime. */
export const NEVER_USES: Record<string, string[]> = {
  engine: ['tokio*', 'rand', 'getrandom', 'chrono', 'time', 'parking_lot', 'libc'],
  scheduler: ['tokio*', 'serde*'],
  provider: ['tokio*'],
};

/** The part of `cargo metadata` that is read. */
export interface CargoPackage {
  name: string;
  dependencies: { name: string; kind: string | null }[];
}

/** Returns every dependency that the tables above do not allow, as a sentence. */
export function crateViolations(packages: readonly CargoPackage[]): string[] {
  return packages.flatMap(({ name, dependencies }) => {
    const crate = name.replace(OURS, '');
    const allowed = CRATE_ARROWS[crate];
    if (allowed === undefined) return [`${crate} is not in CRATE_ARROWS`];
    return dependencies.flatMap((dependency) => {
      const isTest = dependency.kind === 'dev';
      const used = dependency.name.replace(OURS, '');
      if (dependency.name.startsWith(OURS)) {
        const list = isTest ? [...allowed.uses, ...(allowed.testsUse ?? [])] : allowed.uses;
        return list.includes(used) ? [] : [`${crate} -> ${used}${isTest ? ' (dev)' : ''}`];
      }
      const owners = Object.entries(ONLY_USED_BY).find(([pattern]) => matches(pattern, used))?.[1];
      const isBanned = !isTest && (NEVER_USES[crate] ?? []).some((pattern) => matches(pattern, used));
      return isBanned || (owners !== undefined && !owners.includes(crate)) ? [`${crate} -> ${used}`] : [];
    });
  });
}

/**
 * Rooms of crates/runtime/src, the outermost first: its folders, and the files beside them. A file may import from its
 * own room and from rooms to the right. A room that is not here fails the test: decide on its place.
 */
const RUNTIME_ROOMS = [
  ...['internals', 'runtime', 'session', 'poison', 'turn', 'instance', 'activity', 'worker', 'shared', 'lane', 'state'],
  ...['client', 'commit', 'platform', 'error', 'report', 'log', 'registry', 'metrics', 'options'],
];

/** Returns every path `crate::...` of a file of crates/runtime/src that leads to an outer or unknown room. */
export function roomViolations(file: string, source: string): string[] {
  const room = file.replace(/[/.].*/, '');
  const code = source.replace(/\n#\[cfg\(test\)\]\nmod tests \{.*/s, '').replace(/\/\/.*/g, '');
  const used = [...code.matchAll(/\bcrate::(?:(\w+)|\{(.*?)\};)/gs)].flatMap(([, one, many]) =>
    one === undefined ? [...(many ?? '').matchAll(/(?:^|,)\s*(\w+)/g)].map(([, name]) => String(name)) : [one],
  );
  return [...new Set(used)]
    .filter((to) => to !== room && !(RUNTIME_ROOMS.indexOf(to) > RUNTIME_ROOMS.indexOf(room)))
    .map((to) => `${file} -> ${to}: ${RUNTIME_ROOMS.includes(to) ? `${room} is below ${to}` : 'not a room'}`);
}

/**
 * Returns every inherent `impl` of a type that stands in another room than the type. Its methods could be called from
 * rooms below that room without an import.
 */
export function strayImpls(files: readonly { file: string; source: string }[]): string[] {
  const roomOf = (file: string): string => file.replace(/[/.].*/, '');
  const homes = new Set(
    files.flatMap(({ file, source }) =>
      [...source.matchAll(/^(?:pub(?:\(\w+\))? )?(?:struct|enum) (\w+)/gm)].map(
        ([, type]) => `${roomOf(file)} ${type}`,
      ),
    ),
  );
  return files.flatMap(({ file, source }) =>
    [...source.matchAll(/^impl(?:<.*?>)? (\w+)(?:<.*?>)? \{/gm)]
      .filter(([text, type]) => !text.includes(' for ') && !homes.has(`${roomOf(file)} ${type}`))
      .map(([, type]) => `${file}: impl ${type}`),
  );
}

/**
 * Folders of js/, the outermost layer first. A file may import from its own folder, from folders to the right in its
 * own layer, and from the layers below. A folder that is not here fails the test: decide on its place.
 */
const LAYERS = [
  ['cli', 'dashboard'],
  ['testing', 'telemetry', 'datasource'],
  ['runtime'],
  ['client'],
  ['store'],
  ['schedules'],
  ['binding', 'orchestration'],
  ['driver', 'activity'],
  ['tracing', 'logging'],
  ['values'],
  ['errors'],
  ['util'],
];
const FOLDERS = LAYERS.flat();

/** Imports against the layers, of types only, each with its reason. */
const EXCEPTIONS: readonly { from: string; to: string; because: string }[] = [
  { from: 'activity/activity-context', to: 'client/client', because: 'an activity is given a client, as `ctx.client`' },
];

/**
 * The sources of the dashboard's page, which run in browsers. From other files they import only types, and code that
 * runs anywhere.
 */
const PAGE = 'dashboard/page/';
const ANYWHERE = ['dashboard/bars', 'dashboard/log-filter', 'dashboard/steps'];

/**
 * Further rules about imports in js/, types included. `*` stands for any end of a name. Later rules do not undo earlier
 * ones.
 */
export const JS_RULES: { who: string[]; except?: string[]; because: string; only?: string[]; never?: string[] }[] = [
  {
    who: ANYWHERE,
    only: ['dashboard/answers', 'dashboard/bars'],
    because: 'what runs in browsers, too, knows no more than types',
  },
  {
    who: ['cli/*'],
    except: ['cli/commands/query'],
    never: ['binding/*', 'runtime/*'],
    because: 'the command line is a client, and only its queries run code',
  },
  { who: ['*'], never: ['index'], because: 'index.ts only lists the public names' },
  {
    who: ['index'],
    never: ['cli/*', 'dashboard/*', 'testing/*', 'telemetry/*', 'datasource/*'],
    because: 'whoever imports the package loads nothing of its other entries',
  },
  {
    who: ['*'],
    except: ['dashboard/page/*'],
    never: ['dashboard/page/*'],
    because: 'the page is built apart from all else',
  },
];

/** Packages that the build puts into the page and that no user installs. */
const PAGE_PACKAGES = ['preact', 'preact/hooks'];

/** The only file that may import the generated binding. */
const BINDING = 'binding/addon';

/** One import or re-export in a file. */
export interface Import {
  from: string;
  /** The specifier as it is written. */
  to: string;
  /**
   * True for `import type`, which is gone at run time. An `import { type A }` does not count: it still loads the file.
   */
  isType: boolean;
}

/** Returns every import, re-export, `import()` and `require()` of one TypeScript file. */
export function importsOf(file: string, text: string): Import[] {
  const found: Import[] = [];
  const add = (specifier: ts.Node | undefined, isType: boolean): void => {
    if (specifier !== undefined && ts.isStringLiteralLike(specifier))
      found.push({ from: file, to: specifier.text, isType });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node))
      add(node.moduleSpecifier, node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword);
    else if (ts.isExportDeclaration(node)) add(node.moduleSpecifier, node.isTypeOnly);
    else if (ts.isImportTypeNode(node))
      add(ts.isLiteralTypeNode(node.argument) ? node.argument.literal : undefined, true);
    else if (ts.isExternalModuleReference(node)) add(node.expression, false);
    else if (ts.isCallExpression(node)) {
      const isImport = node.expression.kind === ts.SyntaxKind.ImportKeyword;
      if (isImport || (ts.isIdentifier(node.expression) && node.expression.text === 'require'))
        add(node.arguments[0], false);
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true));
  return found;
}

/**
 * Returns every import that the rules above do not allow, and every cycle, as a sentence. File names are relative to
 * js/.
 */
export function importViolations(imports: readonly Import[], packages: readonly string[]): string[] {
  return [...imports.flatMap((arrow) => violationsOf(arrow, packages)), ...cycles(imports)];
}

function violationsOf({ from, to, isType }: Import, packages: readonly string[]): string[] {
  const isPage = from.startsWith(PAGE);
  if (!to.startsWith('.')) {
    if (isPage)
      return PAGE_PACKAGES.includes(to)
        ? []
        : [`${from} -> ${to}: the page runs in a browser, with nothing but ${PAGE_PACKAGES.join(' and ')}`];
    return to.startsWith('node:') || packages.includes(packageOf(to))
      ? []
      : [`${from} -> ${to}: not a dependency in package.json`];
  }
  const target = resolve(from, to);
  // The binding compares the package's version with that of the addon, both in the sources and in dist/.
  if (nameOf(from) === BINDING && target === '../package.json') return [];
  if (target.startsWith('..')) return [`${from} -> ${to}: outside of js/`];
  if (target.startsWith('native/')) {
    return nameOf(from) === BINDING ? [] : [`${from} -> ${to}: only ${BINDING}.ts imports the generated binding`];
  }
  if (isPage && !isType && !target.startsWith(PAGE) && !ANYWHERE.includes(nameOf(target)))
    return [`${from} -> ${target}: the page takes nothing but types from what does not run in a browser`];
  const [source, used] = [nameOf(from), nameOf(target)];
  const broken = JS_RULES.filter(
    ({ who, except = [], only, never = [] }) =>
      isAmong(who, source) && !isAmong(except, source) && ((only && !isAmong(only, used)) || isAmong(never, used)),
  ).map(({ because }) => because);
  const upwards = isException(from, target, isType) ? undefined : upwardsOf(folderOf(source), folderOf(used));
  return [...broken, ...(upwards === undefined ? [] : [upwards])].map((because) => `${from} -> ${target}: ${because}`);
}

/** True for an import that {@link EXCEPTIONS} lists. */
function isException(from: string, target: string, isType: boolean): boolean {
  return isType && EXCEPTIONS.some((arrow) => arrow.from === nameOf(from) && arrow.to === nameOf(target));
}

/**
 * Returns the reason for which a folder may not use another one, if there is one. `index.ts` is in no folder and may
 * use all.
 */
function upwardsOf(from: string | undefined, to: string | undefined): string | undefined {
  if (from === undefined || from === to) return undefined;
  const unknown = [from, to].find((folder) => folder !== undefined && !FOLDERS.includes(folder));
  if (unknown !== undefined) return `${unknown}/ is not in LAYERS`;
  return to !== undefined && FOLDERS.indexOf(to) < FOLDERS.indexOf(from) ? `${from}/ is below ${to}/` : undefined;
}

/** Returns the folder of js/ that contains a file. */
function folderOf(name: string): string | undefined {
  return name.includes('/') ? name.split('/')[0] : undefined;
}

/** Returns one sentence for each cycle of imports that exist at run time. */
function cycles(imports: readonly Import[]): string[] {
  const next = new Map<string, string[]>();
  for (const { from, to, isType } of imports) {
    if (!isType && to.startsWith('.')) next.set(from, [...(next.get(from) ?? []), resolve(from, to)]);
  }
  const found: string[] = [];
  const done = new Set<string>();
  const visit = (file: string, path: string[]): void => {
    const start = path.indexOf(file);
    if (start >= 0)
      found.push(
        `cycle: ${[...path.slice(start), file].join(' -> ')} (is one of them for types? then \`import type\`)`,
      );
    if (start >= 0 || done.has(file)) return;
    for (const target of next.get(file) ?? []) visit(target, [...path, file]);
    done.add(file);
  };
  for (const file of next.keys()) visit(file, []);
  return found;
}

/** Returns the {@link circlesOf circles} of imports in js/, types included. The exceptions above do not count. */
export function circles(imports: readonly Import[]): string[][] {
  const next = new Map<string, Set<string>>();
  for (const { from, to, isType } of imports)
    if (to.startsWith('.') && !isException(from, resolve(from, to), isType))
      next.set(from, (next.get(from) ?? new Set()).add(resolve(from, to)));
  return circlesOf(next);
}

/** Returns the file of js/ that a relative import refers to: `./a.js` is the output of `a.ts`. */
function resolve(from: string, to: string): string {
  return posix.join(posix.dirname(from), to).replace(/\.js$/, '.ts');
}

function nameOf(file: string): string {
  return file.replace(/\.tsx?$/, '');
}

/** Returns the package of a specifier, which may name a part of it. */
function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

function isAmong(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => matches(pattern, name));
}

function matches(pattern: string, name: string): boolean {
  return pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}
