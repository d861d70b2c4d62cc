// Writes THIRD-PARTY.md: the crates that are compiled into the addon, their authors and licences, and the texts that
// these licences ask us to pass on. Fails if a licence is not among those that ask for no more than that.

import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import satisfies from 'spdx-satisfies';

/** The licences that we accept. If an expression offers a choice, we use the first of these that it allows. */
const ALLOWED = [
  'MIT',
  'ISC',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'Zlib',
  '0BSD',
  'Unlicense',
  'CC0-1.0',
  'Apache-2.0',
  'Unicode-3.0',
  'CDLA-Permissive-2.0',
];

const root = fileURLToPath(new URL('..', import.meta.url));

/**
 * The crates that are compiled into the addon on any platform, without our own and without those that only build or
 * test.
 *
 * @returns {{ name: string, version: string, license: string | null, authors: string[], manifest_path: string }[]}
 */
export function bundledCrates() {
  const { napi } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const found = new Map();
  for (const target of napi.targets) {
    const { packages, resolve } = metadata(target);
    const nodes = new Map(resolve.nodes.map((node) => [node.id, node]));
    const crates = new Map(packages.map((crate) => [crate.id, crate]));
    const queue = [packages.find(({ name }) => name === 'perdure-node').id];
    const seen = new Set(queue);
    for (const id of queue) {
      const crate = crates.get(id);
      if (crate.source !== null) found.set(id, crate);
      for (const { pkg, dep_kinds: kinds } of nodes.get(id).deps) {
        if (seen.has(pkg) || isMacro(crates.get(pkg)) || !kinds.some(({ kind }) => kind === null)) continue;
        seen.add(pkg);
        queue.push(pkg);
      }
    }
  }
  return [...found.values()].sort((a, b) =>
    a.name < b.name ? -1 : a.name > b.name ? 1 : a.version < b.version ? -1 : 1,
  );
}

/**
 * The licence that a crate is used under, or `undefined` if it allows none of ours.
 *
 * @param {string | null} expression
 * @returns {string | undefined}
 */
export function licenceOf(expression) {
  if (expression === null) return undefined;
  const modern = expression.replaceAll('/', ' OR ');
  if (!satisfies(modern, ALLOWED)) return undefined;
  const one = ALLOWED.find((licence) => satisfies(modern, [licence]));
  return one ?? modern;
}

function metadata(target) {
  const args = ['metadata', '--format-version', '1', '--locked', '--filter-platform', target];
  const { status, error, stdout, stderr } = spawnSync('cargo', args, {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 256 * 1024 * 1024,
  });
  if (error) throw error;
  if (status !== 0) throw new Error(`cargo ${args.join(' ')} ended with ${status}:\n${stderr}`);
  return JSON.parse(stdout);
}

/** True for a macro, which runs in the compiler and is not in its output. */
function isMacro({ targets }) {
  return targets.some(({ kind }) => kind.includes('proc-macro'));
}

/**
 * The texts of a crate's licence, as they lie in its folder. If there are several licences, the texts of the one that
 * it is used under.
 */
function textsOf({ name, authors, manifest_path: path }, licence) {
  const folder = dirname(path);
  const files = readdirSync(folder).filter(
    (name) => /^(licen[cs]e|copying|notice|unlicense)/i.test(name) && !/\.rs$|spdx/i.test(name),
  );
  if (files.length === 0) {
    if (licence !== 'MIT') throw new Error(`${name} has no text of its licence, ${licence}`);
    const holder = authors.length > 0 ? authors.join(', ') : `the authors of ${name}`;
    return [
      readFileSync(join(root, 'LICENSE'), 'utf8')
        .replace(/^Copyright .*$/m, `Copyright (c) ${holder}`)
        .trim(),
    ];
  }
  const word = licence.split('-')[0].toLowerCase();
  const chosen = files.filter((name) => name.toLowerCase().includes(word));
  const read = (file) => readFileSync(join(folder, file), 'utf8').replaceAll('\r\n', '\n').trim();
  return (chosen.length > 0 ? chosen : files).sort().map(read);
}

/** The text of THIRD-PARTY.md. */
export function thirdParty() {
  const refused = [];
  const rows = [];
  const texts = new Map();
  for (const crate of bundledCrates()) {
    const label = `${crate.name} ${crate.version}`;
    const licence = licenceOf(crate.license);
    if (licence === undefined) {
      refused.push(`${label} is licensed as '${crate.license}', which is not among ${ALLOWED.join(', ')}`);
      continue;
    }
    rows.push(`| ${crate.name} | ${crate.version} | ${licence} |`);
    for (const text of textsOf(crate, licence)) texts.set(text, [...(texts.get(text) ?? []), label]);
  }
  if (refused.length > 0) throw new Error(refused.join('\n'));
  return `# What is compiled into the addon

Written by \`npm run licences\` from the crates that the addon is linked from, on any of its platforms. \
SQLite, which \`libsqlite3-sys\` brings, is in the
public domain. The standard library of Rust is used under the MIT licence, copyright (c) The Rust Project Contributors.

| crate | version | licence |
|---|---|---|
${rows.join('\n')}

${[...texts].map(([text, labels]) => `## ${labels.join(', ')}\n\n~~~text\n${text}\n~~~\n`).join('\n')}`;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) writeFileSync(join(root, 'THIRD-PARTY.md'), thirdParty());
