// The readability of the sources and documents, as limits. The numbers and lists of exceptions may only shrink: an
// exception that is mended fails the test, too, until it is removed here.

import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, it } from 'vitest';

import {
  commentsOf,
  FILE_MAX,
  FUNCTION_MAX,
  LINE_MAX,
  longFunctions,
  longLines,
  longProseLines,
  passagesOf,
  putsSubjectLast,
  vagueWords,
  wordCount,
} from './support/prose.ts';

/** Limit of vague words (nobody, whoever, whatever …), per 1 000 words of comments, and of documents. */
const VAGUE_PER_1000 = 0.5;
/** Limit of comments, paragraphs and list items that begin with What, Whether, Who, How, It or Of, in percent. */
const SUBJECT_LAST_PERCENT = 3;
/** Files with lines over 120 characters. */
const LONG_LINES: readonly string[] = [];

/** Files over 600 lines. */
const LONG_FILES: readonly string[] = [];

/** Functions over 70 lines. */
const LONG_FUNCTIONS: readonly string[] = [];

const root = fileURLToPath(new URL('..', import.meta.url));
const sources = new Map<string, string>();
const documents = new Map<string, string>();

const FOLDERS = ['__test__', 'bench', 'crates', 'docs', 'eslint-plugin', 'examples', 'fuzz', 'js', 'scripts'];
/** Documents of the root folder that a script writes. */
const WRITTEN_BY_SCRIPTS = ['THIRD-PARTY.md'];
/** Folders whose files are not written by hand. */
const SKIPPED = ['node_modules', 'target', 'native', 'dist', 'fixtures'];

beforeAll(() => {
  for (const folder of FOLDERS) read(join(root, folder));
  for (const name of readdirSync(root))
    if (name.endsWith('.md') && !WRITTEN_BY_SCRIPTS.includes(name))
      documents.set(name, readFileSync(join(root, name), 'utf8'));
});

function read(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory() && !SKIPPED.includes(entry.name)) read(path);
    const kind = entry.isFile() ? /\.(?:(rs|tsx?|mts|mjs)|md)$/.exec(entry.name) : null;
    if (kind === null) continue;
    const files = kind[1] === undefined ? documents : sources;
    files.set(relative(root, path).split(sep).join('/'), readFileSync(path, 'utf8'));
  }
}

it('comments name their nouns', () => {
  const comments = [...sources.values()].flatMap(commentsOf);
  expect(vaguePer1000(comments)).toBeLessThanOrEqual(VAGUE_PER_1000);
  expect(subjectLastPercent(comments)).toBeLessThanOrEqual(SUBJECT_LAST_PERCENT);
});

it('documents name their nouns', () => {
  const passages = [...documents].flatMap(([, text]) => passagesOf(text));
  expect(documents.size).toBeGreaterThan(20);
  expect(vaguePer1000(passages)).toBeLessThanOrEqual(VAGUE_PER_1000);
  expect(subjectLastPercent(passages.filter(({ kind }) => kind === 'text'))).toBeLessThanOrEqual(SUBJECT_LAST_PERCENT);
});

function vaguePer1000(texts: readonly { text: string }[]): number {
  const sum = (count: (text: string) => number): number => texts.reduce((total, { text }) => total + count(text), 0);
  return (1_000 * sum(vagueWords)) / sum(wordCount);
}

function subjectLastPercent(texts: readonly { text: string }[]): number {
  return (100 * texts.filter(({ text }) => putsSubjectLast(text)).length) / texts.length;
}

it(`lines of documents have ${LINE_MAX} characters`, () => {
  const long = [...documents].filter(([, text]) => longProseLines(text).length > 0).map(([file]) => file);
  expect(long).toEqual([]);
});

it(`lines have ${LINE_MAX} characters`, () => {
  const long = [...sources].filter(([, text]) => longLines(text).length > 0).map(([file]) => file);
  expect(long.sort()).toEqual(LONG_LINES);
});

it(`files have ${FILE_MAX} lines`, () => {
  const long = [...sources].filter(([, text]) => text.split('\n').length - 1 > FILE_MAX).map(([file]) => file);
  expect(long.sort()).toEqual(LONG_FILES);
});

it(`functions have ${FUNCTION_MAX} lines`, () => {
  const long = [...sources].flatMap(([file, text]) => longFunctions(file, text).map((name) => `${file} ${name}`));
  expect(long.sort()).toEqual(LONG_FUNCTIONS);
});

it('finds each of these', () => {
  const source = `/** What becomes of it. */\nconst a = 1;\n// Nobody\n//   knows.\n\n/*\n * Of all.\n */\n`;
  expect(commentsOf(source)).toEqual([
    { line: 1, text: 'What becomes of it.' },
    { line: 3, text: 'Nobody knows.' },
    { line: 6, text: 'Of all.' },
  ]);
  expect(commentsOf('//! Head.\n//! More.\n\n/// Doc.\nfn a() {} // behind\n')).toEqual([
    { line: 1, text: 'Head. More.' },
    { line: 4, text: 'Doc.' },
  ]);
  expect(vagueWords('Nobody takes whatever is left.')).toBe(2);
  expect(putsSubjectLast('Whether it is one.') && !putsSubjectLast('Items of it.')).toBe(true);
  const heading = '# What?\n\n';
  const text = 'A text\nof `nobody`.\n- **Who** it is.\n\n';
  const document = `${heading}${text}\`\`\`ts\ncode;\n\`\`\`\n<!--\nno\n-->\n| a | b |\n`;
  expect(passagesOf(document)).toEqual([
    { kind: 'heading', line: 1, text: 'What?' },
    { kind: 'text', line: 3, text: 'A text of ….' },
    { kind: 'text', line: 5, text: 'Who** it is.' },
    { kind: 'row', line: 13, text: '| a | b |' },
  ]);
  const long = 'x'.repeat(121);
  expect(longProseLines(`${long}\n| ${long} |\n\`\`\`ts\n${long}\n\`\`\`\n[link](${long})\n`)).toEqual([1]);
  expect(longLines(`${'x'.repeat(120)}\n${'x'.repeat(121)}`)).toEqual([2]);
  const body = '  work();\n'.repeat(FUNCTION_MAX);
  expect(longFunctions('a.ts', `function short() {\n}\nfunction long() {\n${body}}\n`)).toEqual(['long']);
  expect(longFunctions('a.rs', `fn short() {\n}\npub(crate) async fn long(\n    a: u8,\n) {\n${body}}\n`)).toEqual([
    'long',
  ]);
});
