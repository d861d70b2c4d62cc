import { posix } from 'node:path';
import ts from 'typescript';

// Who may use whom: the rules of ARCHITECTURE.md as tables, and functions from facts to the list of violations.

const OURS = 'perdure-';

/** What each crate may use of ours. A crate that is not here fails the test: decide where it stands. */
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

/** Who alone may use these crates of others. `*` stands for any end of the name. */
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

/** What these crates may not use: the engine is a pure function, the scheduler knows no runtime. */
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

/** Every dependency that the tables above do not allow, as a sentence. */
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
 * Folders of js/, the outermost layer first: a file may import what lies in its own folder, to the right in its own layer, and in the
 * layers below. A folder that is not here fails the test: decide where it stands.
 */
const LAYERS = [
  ['cli', 'dashboard'],
  ['testing', 'telemetry'],
  ['runtime'],
  ['client'],
  ['store'],
  ['binding', 'orchestration'],
  ['driver', 'activity'],
  ['tracing', 'logging'],
  ['values'],
  ['errors'],
  ['util'],
];
const FOLDERS = LAYERS.flat();

/** Imports against the layers, types alone, each with its reason. */
const EXCEPTIONS: readonly { from: string; to: string; because: string }[] = [
  { from: 'activity/activity-context', to: 'client/client', because: 'an activity is given a client, as `ctx.client`' },
];

/** The sources of its page, which runs in browsers: of all else it knows no more than types, and what runs anywhere. */
const PAGE = 'dashboard/page/';
const ANYWHERE = ['dashboard/bars'];

/** What else files of js/ may import, types included; `*` stands for any end of a name. Later rules do not undo earlier ones. */
export const JS_RULES: { who: string[]; except?: string[]; because: string; only?: string[]; never?: string[] }[] = [
  { who: ANYWHERE, only: ['dashboard/answers'], because: 'what runs in browsers, too, knows no more than types' },
  { who: ['cli/*'], never: ['binding/*', 'runtime/*'], because: 'the command line is a client' },
  { who: ['*'], never: ['index'], because: 'index.ts only lists the public names' },
  {
    who: ['index'],
    never: ['cli/*', 'dashboard/*', 'testing/*', 'telemetry/*'],
    because: 'whoever imports the package loads nothing of its other entries',
  },
  {
    who: ['*'],
    except: ['dashboard/page/*'],
    never: ['dashboard/page/*'],
    because: 'the page is built apart from all else',
  },
];

/** What the build puts into the page, and no user installs. */
const PAGE_PACKAGES = ['preact', 'preact/hooks'];

/** Who alone may import the generated binding. */
const BINDING = 'binding/binding';

/** One import or re-export in a file. */
export interface Import {
  from: string;
  /** The specifier as it stands there. */
  to: string;
  /** `import type`: gone at run time. An `import { type A }` is not: it still loads the file. */
  isType: boolean;
}

/** Every import, re-export, `import()` and `require()` of one TypeScript file. */
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

/** Every import that the rules above do not allow, and every cycle, as a sentence. File names are relative to js/. */
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
  // Its version is compared with that of the addon, in the sources and in dist/ alike.
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
  const isException = isType && EXCEPTIONS.some((arrow) => arrow.from === source && arrow.to === used);
  const upwards = isException ? undefined : upwardsOf(folderOf(source), folderOf(used));
  return [...broken, ...(upwards === undefined ? [] : [upwards])].map((because) => `${from} -> ${target}: ${because}`);
}

/** Why a folder may not use another one, if it may not. `index.ts`, in none, may use all. */
function upwardsOf(from: string | undefined, to: string | undefined): string | undefined {
  if (from === undefined || from === to) return undefined;
  const unknown = [from, to].find((folder) => folder !== undefined && !FOLDERS.includes(folder));
  if (unknown !== undefined) return `${unknown}/ is not in LAYERS`;
  return to !== undefined && FOLDERS.indexOf(to) < FOLDERS.indexOf(from) ? `${from}/ is below ${to}/` : undefined;
}

/** The folder of js/ that a file is in. */
function folderOf(name: string): string | undefined {
  return name.includes('/') ? name.split('/')[0] : undefined;
}

/** One sentence for each cycle of imports that exist at run time. */
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

/** The file of js/ that a relative import means: `./a.js` is the output of `a.ts`. */
function resolve(from: string, to: string): string {
  return posix.join(posix.dirname(from), to).replace(/\.js$/, '.ts');
}

function nameOf(file: string): string {
  return file.replace(/\.tsx?$/, '');
}

/** The package of a specifier, which may name a part of it. */
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
