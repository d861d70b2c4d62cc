// What tsc leaves to do in dist/, where it puts declarations: the code, the page of the dashboard, and the addon with its loader.
//
// Most files of js/ become few, because Node takes longer to find and link seventy files than to run them: what `perdure/orchestration`
// needs is one, what `perdure` needs besides is another, and what is for others alone is with them. These lie in dist/shared/, as deep as
// their sources in js/, so that a path from a source leads from there to the same place. The files of js/cli/ and js/dashboard/ stay files:
// a command is loaded when it is called.

import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

import { pageFiles } from './page.mjs';

process.chdir(fileURLToPath(new URL('..', import.meta.url)));

if (!existsSync('js/native/index.cjs')) {
  console.error('js/native has no addon yet: `npm run build` builds it and everything else.');
  process.exit(1);
}
const written = await bundle();
for (const [file, bytes] of await pageFiles()) {
  put(file, bytes);
  written.add(file);
}
const DECLARATION = /\.d\.ts(\.map)?$/;
for (const entry of readdirSync('dist', { recursive: true, withFileTypes: true })) {
  const file = join(entry.parentPath, entry.name);
  const source = join('js', relative('dist', file)).replace(DECLARATION, '.ts');
  const isGone = DECLARATION.test(file) ? !existsSync(source) : /\.js(\.map)?$/.test(file) && !written.has(file);
  if (entry.isFile() && isGone) rmSync(file);
}
mkdirSync('dist/native', { recursive: true });
for (const name of readdirSync('js/native').filter((name) => !name.startsWith('.'))) {
  put(join('dist/native', name), readFileSync(join('js/native', name)));
}

/** Writes what the package's entries and its worker threads run, and returns the files. */
async function bundle() {
  const entries = entriesOf(JSON.parse(readFileSync('package.json', 'utf8')));
  const build = await rolldown({
    input: Object.fromEntries(entries.map((name) => [name, `js/${name}.ts`])),
    platform: 'node',
    external: (id) => !id.startsWith('.') && !isAbsolute(id) && !id.startsWith('js/'),
    // Of an entry that has code of its own others may take some: a test sees to it that nobody else notices.
    preserveEntrySignatures: 'allow-extension',
    // What package.json says of side effects is for those who bundle the package.
    treeshake: { moduleSideEffects: true },
  });
  const { output } = await build.generate({
    dir: 'dist',
    format: 'esm',
    sourcemap: true,
    sourcemapExcludeSources: true,
    minify: false,
    chunkFileNames: ({ name }) => (name.includes('/') ? '[name].js' : 'shared/[name].js'),
    codeSplitting: {
      includeDependenciesRecursively: false,
      groups: [{ debugName: 'layout', name: (id, graph) => groupOf(id, entries, graph) }],
    },
  });
  await build.close();
  for (const file of output)
    put(join('dist', file.fileName), Buffer.from(file.type === 'chunk' ? file.code : file.source));
  return new Set(output.map(({ fileName }) => join('dist', fileName)));
}

/** Files of js/, without their end: those that package.json leads to, that of a worker thread, and what tests and the benchmark look into. */
function entriesOf({ exports, bin = {} }) {
  const targets = [...Object.values(exports).map((target) => target.default ?? target), ...Object.values(bin)];
  const named = targets
    .map((target) => /^(?:\.\/)?dist\/(.+)\.js$/.exec(target)?.[1])
    .filter((name) => name !== undefined);
  return [...new Set([...named, 'runtime/worker-thread', 'runtime/internal'])];
}

/** Which file a module goes to, if that is not up to who needs it. */
function groupOf(id, entries, graph) {
  const name = relative('js', id).split(sep).join('/').replace(/\.ts$/, '');
  if (entries.includes(name) || name.startsWith('..')) return null;
  if (/^(cli|dashboard)\//.test(name)) return name;
  if (reached('js/orchestration/free.ts', graph).has(id)) return 'orchestration';
  return reached('js/index.ts', graph).has(id) ? 'core' : null;
}

/** A file and all that it imports. */
function reached(file, graph) {
  const seen = new Set([resolve(file)]);
  for (const id of seen) for (const imported of graph.getModuleInfo(id)?.importedIds ?? []) seen.add(imported);
  return seen;
}

/** Puts a file in its place unless it is there. */
function put(to, bytes) {
  if (existsSync(to) && readFileSync(to).equals(bytes)) return;
  mkdirSync(dirname(to), { recursive: true });
  // By rename: a process that has the old file loaded keeps its own, and none ever finds half of one.
  writeFileSync(`${to}.new`, bytes, { mode: to.endsWith('.node') ? 0o755 : 0o644 });
  renameSync(`${to}.new`, to);
}
