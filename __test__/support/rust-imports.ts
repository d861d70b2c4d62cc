// The imports between the files of a Rust crate, read without a compiler. A `mod` is no import, and neither is a
// re-export of a name that its file does not use. Unit tests at the end of a file do not count.

/** A source file of a crate, relative to the crate's `src/`. */
export interface RustFile {
  file: string;
  source: string;
}

/** A file, as the module that it is. */
interface Module {
  file: string;
  /** Its place below the root of the crate. */
  place: string[];
  /** The code without its `use` items. */
  code: string;
  uses: Use[];
}

/** One name of a `use` item. */
interface Use {
  path: string[];
  /** The name in this file; `*` for all names of a module. */
  name: string;
  isReexport: boolean;
}

const USE = /^[ \t]*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);/gm;
/** A path in code. It begins with a module: names of types are upper-case, and imported. */
const PATH = /(?<![\w:])[a-z_]\w*(?:::\w+)+/g;
/** Re-exports of re-exports that are followed. */
const DEPTH_MAX = 8;

/** Returns the files of a crate that each of its files imports. A re-exported name is followed to its definition. */
export function rustImports(files: readonly RustFile[]): Map<string, Set<string>> {
  const modules = new Map(files.map(moduleOf).map((module) => [module.place.join('::'), module]));
  const imports = new Map<string, Set<string>>();
  for (const module of modules.values()) {
    const used = module.uses.filter(({ isReexport, name }) => !isReexport || mentions(module.code, name));
    const inCode = [...module.code.matchAll(PATH)].map(([path]) => path.split('::'));
    const paths = [...used.map(({ path }) => path), ...inCode].map((path) => placeOf(path, module, modules));
    const targets = paths.flatMap((path) => (path && definerOf(path, modules)?.file) ?? []);
    imports.set(module.file, new Set(targets.filter((file) => file !== module.file)));
  }
  return imports;
}

function moduleOf({ file, source }: RustFile): Module {
  const code = source.replace(/\n#\[cfg\(test\)\]\nmod \w+ \{.*?\n\}\n/gs, '\n').replace(/\/\/.*/g, '');
  const uses = [...code.matchAll(USE)].flatMap(([, visibility, tree]) =>
    namesOf(tree ?? '').map((name) => ({ ...name, isReexport: visibility !== undefined })),
  );
  const place = file
    .replace(/\.rs$/, '')
    .split('/')
    .filter((part, i, all) => i + 1 < all.length || !['mod', 'lib'].includes(part));
  return { file, place, code: code.replace(USE, ''), uses };
}

/** Returns the names of a `use` item, such as `crate::a::{self, B as C}`. */
function namesOf(tree: string): { path: string[]; name: string }[] {
  const [, before, inner] = /^([^{]*)\{(.*)\}\s*$/s.exec(tree) ?? [];
  if (before === undefined || inner === undefined) {
    const [path = '', alias] = tree.trim().split(/\s+as\s+/);
    const parts = path.replace(/::(?:self|\*)$/, '').split('::');
    return [{ path: parts, name: path.endsWith('*') ? '*' : (alias ?? parts.at(-1) ?? '') }];
  }
  return partsOf(inner).flatMap((part) => namesOf(before.trim() + part.trim()));
}

/** Returns the parts of a list, without splitting the lists in it. */
function partsOf(list: string): string[] {
  const parts = [''];
  let depth = 0;
  for (const char of list) {
    depth += Number(char === '{') - Number(char === '}');
    if (char === ',' && depth === 0) parts.push('');
    else parts.push((parts.pop() ?? '') + char);
  }
  return parts.filter((part) => part.trim() !== '');
}

/** Returns a path of a module's code from the root of the crate on. Paths into other crates have none. */
function placeOf(
  path: string[],
  module: Module,
  modules: ReadonlyMap<string, Module>,
  depth = 0,
): string[] | undefined {
  const [first = '', ...rest] = path;
  if (first === 'crate') return rest;
  if (first === 'self') return [...module.place, ...rest];
  if (first === 'super') {
    const inner = path.filter((part) => part !== 'super');
    return [...module.place.slice(0, inner.length - path.length), ...inner];
  }
  if (modules.has([...module.place, first].join('::'))) return [...module.place, ...path];
  const imported = module.uses.find(({ name }) => name === first);
  if (imported === undefined || imported.path[0] === first || depth > DEPTH_MAX) return undefined;
  return placeOf([...imported.path, ...rest], module, modules, depth + 1);
}

/** Returns the module that defines the item at a path from the root of the crate. */
function definerOf(path: string[], modules: ReadonlyMap<string, Module>, depth = 0): Module | undefined {
  let end = 0;
  while (end < path.length && modules.has(path.slice(0, end + 1).join('::'))) end += 1;
  const module = modules.get(path.slice(0, end).join('::'));
  const [name, ...rest] = path.slice(end);
  if (module === undefined || name === undefined || depth > DEPTH_MAX) return module;
  const imported = module.uses.find((use) => use.name === name);
  const target = imported && placeOf(imported.path, module, modules);
  if (target !== undefined) return definerOf([...target, ...rest], modules, depth + 1);
  const globs = module.uses.filter((use) => use.name === '*').map((use) => placeOf(use.path, module, modules));
  const opened = globs.map((glob) => glob && definerOf(glob, modules, depth + 1));
  return opened.find((other) => other !== undefined && defines(other.code, name)) ?? module;
}

function mentions(code: string, name: string): boolean {
  return name !== '*' && new RegExp(`\\b${name}\\b`).test(code);
}

function defines(code: string, name: string): boolean {
  return new RegExp(`\\b(?:struct|enum|trait|fn|type|const|static|union|macro_rules!)\\s+${name}\\b`).test(code);
}
