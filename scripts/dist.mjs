// Fills dist/, where tsc has put the declarations, with the rest: the code, the page of the dashboard, and the addon
// with its loader.
//
// Most files of js/ become few, because Node takes longer to find and link seventy files than to run them. The code
// that `perdure/orchestration` needs is one file, the rest that `perdure` needs is another, and code that only other
// entries need is with them. These files lie in dist/shared/, as deep as their sources in js/, so that a path from a
// source leads from there to the same place. All commands of the command line are one file too, because each call needs
// their options. What only some commands run, in js/cli/ and js/dashboard/, stays files that are loaded when they are
// needed.

import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

import { pageFiles } from './page.mjs';

/** The ESLint plugin, a package of its own. It shares facts with js/, so it becomes one file as well. */
const PLUGIN = 'eslint-plugin';

process.chdir(fileURLToPath(new URL('..', import.meta.url)));

if (!existsSync('js/native/index.cjs')) {
  console.error('js/native has no addon yet: `npm run build` builds it and everything else.');
  process.exit(1);
}
const written = await bundle();
await bundlePlugin();
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

/** Writes the code that the package's entries and its worker threads run, and returns the files. */
async function bundle() {
  const entries = entriesOf(JSON.parse(readFileSync('package.json', 'utf8')));
  const build = await rolldown({
    input: Object.fromEntries(entries.map((name) => [name, `js/${name}.ts`])),
    platform: 'node',
    external: (id) => !id.startsWith('.') && !isAbsolute(id) && !id.startsWith('js/'),
    // Other files may import more from the file of an entry than the entry exports. A test checks that users do not see
    // that.
    preserveEntrySignatures: 'allow-extension',
    // The side effects in package.json are for users who bundle the package.
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

/** Writes the code of the ESLint plugin. */
async function bundlePlugin() {
  const build = await rolldown({
    input: { index: `${PLUGIN}/src/index.ts` },
    platform: 'node',
    external: (id) => !id.startsWith('.') && !isAbsolute(id) && !id.startsWith(PLUGIN),
  });
  const { output } = await build.generate({ format: 'esm' });
  await build.close();
  for (const { fileName, code } of output) put(join(PLUGIN, 'dist', fileName), Buffer.from(code));
}

/**
 * The files of js/, without their extension, that need a file of their own in dist/: those that package.json leads to,
 * that of a worker thread, and the one that tests and the benchmark look into.
 */
function entriesOf({ exports, bin = {} }) {
  const targets = [...Object.values(exports).map((target) => target.default ?? target), ...Object.values(bin)];
  const named = targets
    .map((target) => /^(?:\.\/)?dist\/(.+)\.js$/.exec(target)?.[1])
    .filter((name) => name !== undefined);
  return [...new Set([...named, 'runtime/worker-thread', 'runtime/internal'])];
}

/** The file that a module goes to, or `null` if the bundler decides by the modules that need it. */
function groupOf(id, entries, graph) {
  const name = relative('js', id).split(sep).join('/').replace(/\.ts$/, '');
  if (entries.includes(name) || name.startsWith('..')) return null;
  if (name.startsWith('cli/') && reached('js/cli/program.ts', graph).has(id)) return 'command-line';
  if (/^(cli|dashboard)\//.test(name)) return name;
  if (!reached('js/index.ts', graph).has(id)) return null;
  return reached('js/orchestration/free.ts', graph).has(id) ? 'orchestration' : 'core';
}

/** A file and all that it imports. */
function reached(file, graph) {
  const seen = new Set([resolve(file)]);
  for (const id of seen) for (const imported of graph.getModuleInfo(id)?.importedIds ?? []) seen.add(imported);
  return seen;
}

/** Writes a file unless it is there with the same bytes. */
function put(to, bytes) {
  if (existsSync(to) && readFileSync(to).equals(bytes)) return;
  mkdirSync(dirname(to), { recursive: true });
  // A rename keeps the old file for a process that has it loaded, and no process ever finds half a file.
  writeFileSync(`${to}.new`, bytes, { mode: to.endsWith('.node') ? 0o755 : 0o644 });
  renameSync(`${to}.new`, to);
}
