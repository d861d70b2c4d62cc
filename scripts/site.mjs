// Makes the site of the guide and the reference: static pages in site/, or in the folder that is named.
//
//   node scripts/site.mjs [folder]
//
// The guide is docs/, in the order of its table of contents. The reference is made of the comments on the package's
// exports. Anything that does not fit, such as a link to nothing or a comment about a parameter that is gone, is an
// error.

import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Application, Converter } from 'typedoc';

const folder = resolve(process.argv[2] ?? 'site');
process.chdir(fileURLToPath(new URL('..', import.meta.url)));

const manifest = JSON.parse(readFileSync('package.json', 'utf8'));
const pages = [...readFileSync('docs/README.md', 'utf8').matchAll(/^\d+\. \[[^\]]*\]\(([^()]+)\)/gm)].map(([, page]) =>
  join('docs', page),
);

const app = await Application.bootstrap({
  name: 'Perdure',
  includeVersion: true,
  entryPoints: sourcesOf(manifest.exports),
  tsconfig: 'tsconfig.json',
  readme: 'README.md',
  projectDocuments: pages,
  // Pages keep the order in which they stand above, which is that of reading.
  sort: ['kind', 'instance-first', 'alphabetical-ignoring-documents'],
  excludeInternal: true,
  excludePrivate: true,
  // Names that only give types to lists of strings. Their values are in the types that refer to them.
  intentionallyNotExported: ['ENDED_STATES', 'HISTORY_EVENT_KINDS', 'ISOLATIONS', 'OVERLAPS'],
  disableSources: true,
  disableGit: true,
  githubPages: false,
  highlightLanguages: ['typescript', 'javascript', 'json', 'sh', 'console', 'sql', 'yaml', 'html', 'prisma'],
  // The highlighter has no grammar for it.
  ignoredHighlightLanguages: ['promql'],
  navigation: { includeGroups: true },
  groupOrder: ['Guide', 'Modules', '*'],
  treatWarningsAsErrors: true,
  validation: { invalidLink: true, invalidPath: true, notExported: true, notDocumented: false },
});
// Called before anything is grouped and sorted. Pages are named by their headings, modules by the entry that users
// import.
app.converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }) => {
  for (const page of project.documents ?? []) {
    page.name = /^# (.+)$/m.exec(page.content[0]?.text ?? '')?.[1] ?? page.name;
    page.frontmatter.group = 'Guide';
  }
  for (const module of project.children ?? []) module.name = entryOf(module.name);
});
const project = await app.convert();
if (project !== undefined) {
  app.validate(project);
  await app.generateDocs(project, folder);
}
process.exitCode = project === undefined || app.logger.hasErrors() || app.logger.hasWarnings() ? 1 : 0;

/** The name by which users import an entry, by its file. */
function entryOf(name) {
  const files = [`./dist/${name}.js`, `./dist/${name}/index.js`];
  const [entry] = Object.entries(manifest.exports).find(([, target]) => files.includes(target.default)) ?? [name];
  return entry.replace(/^\./, 'perdure');
}

/** The files of js/ that the entries of the package are made of. */
function sourcesOf(entries) {
  const targets = Object.values(entries).map((target) => /^\.\/dist\/(.+)\.js$/.exec(target.default ?? '')?.[1]);
  return targets.filter((name) => name !== undefined).map((name) => `js/${name}.ts`);
}
