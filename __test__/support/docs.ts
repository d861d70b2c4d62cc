// Pages of documentation as programs: their code blocks are extracted, checked by the compiler and run, and the printed
// text is compared with the text in the page.
//
// The info string of a block says how it is used:
//
//   ts, js             part of the page's program: all these blocks in order are one module, run as one process
//   js name.mjs        a file with this name, for the page's commands (json and others likewise)
//   ts name.mts        a file with this name, which is compiled by itself. The imports of an `.mts` file are resolved
//                      as in Node, those of a `.ts` file as in bundlers, since it belongs to a framework. The file is
//                      run only if a command does so
//   console            a terminal: each line that begins with `$ ` is run, the other lines are the printed text
//   text               the text that the block before it printed; `…` stands for anything on its line. A page does
//                      not show the lines that Perdure logs about failures
//   sh                 commands for the reader to type, which are not run
//
// A block within an HTML comment is run like any other: a page can end its program that way without showing it.

import { spawn } from 'node:child_process';
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

import { withoutFailures } from './log-lines.ts';
import { generatePrismaClient } from './prisma.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Time limit of a page's program, ms. */
const RUN_MAX_MS = 60_000;

/** Packages, or scopes of packages, that pages use besides Perdure and Node. */
const OTHERS = [
  'vitest',
  'zod',
  'express',
  'fastify',
  'hono',
  '@hono',
  'croner',
  'pg',
  'better-sqlite3',
  'drizzle-orm',
  'kysely',
  'knex',
  'postgres',
  '@prisma',
  'pino',
  '@opentelemetry',
  '@types',
];

/** Files that the compiler checks. */
const TYPESCRIPT = /\.[mc]?tsx?$/;

const OPTIONS: ts.CompilerOptions = {
  strict: true,
  // Allows only types that Node can strip, so that it can run the code unchanged.
  erasableSyntaxOnly: true,
  verbatimModuleSyntax: true,
  target: ts.ScriptTarget.ES2023,
  lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts'],
  types: ['node'],
  typeRoots: [join(root, 'node_modules/@types')],
  skipLibCheck: true,
};

/** Marks the end of a block's part of the program's output. No page prints it. */
const END = '\x1e';

export interface Block {
  /** The first word after the fence. */
  readonly kind: string;
  /** The second word: a file. */
  readonly file: string | undefined;
  /** Line of the opening fence, from 1. */
  readonly line: number;
  readonly code: readonly string[];
}

export interface Page {
  /** Relative to the root of the repository. */
  readonly name: string;
  readonly blocks: readonly Block[];
  /** Files that the page links to, relative to the root of the repository. */
  readonly links: readonly string[];
  /** Sentences about blocks that cannot be checked. */
  readonly problems: readonly string[];
}

/** Returns all pages of the guide, and the README that leads to them. */
export function readPages(): Page[] {
  const guide = readdirSync(join(root, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .sort();
  return ['README.md', ...guide.map((name) => `docs/${name}`)].map((name) =>
    parsePage(name, readFileSync(join(root, name), 'utf8')),
  );
}

const FENCE = /^(\s*)(`{3,}|~{3,})\s*(\S*)\s*(\S*)\s*$/;

export function parsePage(name: string, markdown: string): Page {
  const blocks: Block[] = [];
  const problems: string[] = [];
  let open: (Block & { code: string[] }) | undefined;
  for (const [i, line] of markdown.split('\n').entries()) {
    const [, indent, fence, kind = '', file = ''] = FENCE.exec(line) ?? [];
    if (fence === undefined) {
      open?.code.push(line);
    } else if (open !== undefined && kind === '') {
      open = undefined;
    } else {
      if (indent !== '' || fence !== '```')
        problems.push(`${name}:${i + 1}: a block begins with \`\`\` at the start of its line`);
      open = { kind, file: file === '' ? undefined : file, line: i + 1, code: [] };
      blocks.push(open);
    }
  }
  if (open !== undefined) problems.push(`${name}:${open.line}: the block has no end`);
  for (const [i, block] of blocks.entries()) {
    const at = `${name}:${block.line}`;
    const isKnown = isProgram(block) || block.file !== undefined || ['console', 'text', 'sh'].includes(block.kind);
    if (!isKnown)
      problems.push(`${at}: a block of kind '${block.kind}' is neither run nor named as one that is not (sh, text)`);
    const before = blocks[i - 1];
    if (block.kind === 'text' && (before === undefined || !isProgram(before)))
      problems.push(`${at}: what printed this text? Only ts and js blocks do`);
  }
  const links = [...markdown.matchAll(/\]\(([^():#]+)(?:#[^()]*)?\)/g)].map(([, link = '']) =>
    posix.join(posix.dirname(name), link),
  );
  for (const link of links) if (!existsSync(join(root, link))) problems.push(`${name}: there is no ${link} to link to`);
  return { name, blocks, links, problems };
}

function isProgram({ kind, file }: Block): boolean {
  return (kind === 'ts' || kind === 'js') && file === undefined;
}

/**
 * Returns the page's program. Every line has the same number as in the page, so that the compiler and stacks name the
 * page's lines.
 */
function programOf({ blocks }: Page): string {
  const lines: string[] = [];
  for (const { line, code } of blocks.filter(isProgram)) {
    while (lines.length < line) lines.push('');
    lines.push(...code, `;console.log(${JSON.stringify(END)});`);
  }
  return `${lines.join('\n')}\nexport {};\n`;
}

/** Pages in a folder. They find the built package in node_modules, as their readers do. */
export class Site {
  readonly #folder: string;

  /** @param folder - an empty folder, which the caller removes */
  constructor(folder: string, pages: readonly Page[]) {
    this.#folder = folder;
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }\n');
    mkdirSync(join(folder, 'node_modules'));
    symlinkSync(root, join(folder, 'node_modules/perdure'), 'junction');
    symlinkSync(join(root, 'eslint-plugin'), join(folder, 'node_modules/eslint-plugin-perdure'), 'junction');
    for (const name of OTHERS)
      symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name), 'junction');
    for (const page of pages) {
      mkdirSync(this.#path(page));
      writeFileSync(this.#path(page, 'page.ts'), programOf(page));
      for (const { file, code } of page.blocks) {
        if (file === undefined) continue;
        mkdirSync(posix.dirname(this.#path(page, file)), { recursive: true });
        writeFileSync(this.#path(page, file), `${code.join('\n')}\n`);
      }
    }
  }

  /**
   * Compiles the programs and the TypeScript files of all pages. Returns the compiler's messages as `docs/page.md:12:
   * …`.
   */
  compile(pages: readonly Page[]): string[] {
    const ours = new Map<string, { page: Page; before: number }>();
    for (const page of pages) {
      ours.set(this.#path(page, 'page.ts'), { page, before: 0 });
      for (const { file, line } of page.blocks)
        if (file !== undefined && TYPESCRIPT.test(file)) ours.set(this.#path(page, file), { page, before: line });
    }
    // A program with Prisma is made of the client, too, which is generated from the page's schema.
    for (const page of pages)
      if (page.blocks.some(({ file }) => file === 'schema.prisma')) generatePrismaClient(this.#path(page));
    const names = [...ours.keys()];
    const isOfNode = (name: string): boolean => name.endsWith('/page.ts') || name.endsWith('.mts');
    const program = ts.createProgram({
      rootNames: names.filter(isOfNode),
      options: {
        ...OPTIONS,
        module: ts.ModuleKind.NodeNext,
        moduleResolution: ts.ModuleResolutionKind.NodeNext,
        inlineSourceMap: true,
      },
    });
    const { diagnostics } = program.emit();
    const bundled = ts.createProgram({
      rootNames: names.filter((name) => !isOfNode(name)),
      options: {
        ...OPTIONS,
        module: ts.ModuleKind.ESNext,
        moduleResolution: ts.ModuleResolutionKind.Bundler,
        noEmit: true,
      },
    });
    return [...ts.getPreEmitDiagnostics(program), ...diagnostics, ...ts.getPreEmitDiagnostics(bundled)].map(
      ({ file, start, messageText }) => {
        const message = ts.flattenDiagnosticMessageText(messageText, '\n');
        const place = ours.get(file?.fileName ?? '');
        if (file === undefined || start === undefined || place === undefined) return message;
        return `${place.page.name}:${place.before + file.getLineAndCharacterOfPosition(start).line + 1}: ${message}`;
      },
    );
  }

  /**
   * Runs a page's program and its commands. Returns each difference between the printed text and the page, as a
   * sentence.
   */
  async run(page: Page): Promise<string[]> {
    const found: string[] = [];
    const compare = (line: number, said: readonly string[], all: string): void => {
      const printed = withoutFailures(all);
      if (!fits(printed, said))
        found.push(`${page.name}:${line}: the page says\n\n${said.join('\n')}\n\nand it printed\n\n${printed}\n`);
    };
    const program = page.blocks.filter(isProgram);
    if (program.length > 0) {
      const { output, end } = await this.#node(page, ['--enable-source-maps', 'page.js']);
      const parts = output.split(`${END}\n`);
      for (const [i, block] of program.entries()) {
        const next = page.blocks[page.blocks.indexOf(block) + 1];
        compare(block.line, next?.kind === 'text' ? next.code : [], parts[i] ?? 'nothing: the program had ended');
      }
      compare(program.at(-1)?.line ?? 0, [], parts.slice(program.length).join(''));
      if (end !== '0') found.push(`${page.name}: the program ended with ${end}`);
    }
    for (const { line, code } of page.blocks.filter(({ kind }) => kind === 'console')) {
      for (const [i, text] of code.entries()) {
        if (!text.startsWith('$ ')) continue;
        const { output, end } = await this.#node(page, argumentsOf(text.slice(2), `${page.name}:${line + 1 + i}`));
        const next = code.findIndex((other, at) => at > i && other.startsWith('$ '));
        // A shell prints that, too.
        const printed = end === 'SIGKILL' ? `${output}Killed\n` : output;
        compare(line + 1 + i, code.slice(i + 1, next < 0 ? undefined : next), printed);
      }
    }
    return found;
  }

  /** Runs one process in the page's folder. Returns all that it printed, and its exit code or signal. */
  #node(page: Page, args: readonly string[]): Promise<{ output: string; end: string }> {
    const path = this.#path(page, 'output');
    // Both streams go into one file, in the order in which a terminal shows them.
    const file = openSync(path, 'w');
    const child = spawn(process.execPath, args, {
      cwd: this.#path(page),
      env: { ...process.env, NODE_OPTIONS: '', NODE_ENV: '' },
      stdio: ['ignore', file, file],
      timeout: RUN_MAX_MS,
    });
    closeSync(file);
    return new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code, signal) =>
        resolve({ output: readFileSync(path, 'utf8'), end: String(code ?? signal) }),
      );
    });
  }

  #path(page: Page, ...rest: readonly string[]): string {
    return join(this.#folder, page.name.replace('/', '-').replace('.md', ''), ...rest).replaceAll('\\', '/');
  }
}

/**
 * Returns the arguments of Node for a command of a page: `node file.mjs`, or `npx` with perdure, vitest or eslint and
 * their arguments, some of them between single quotes.
 */
function argumentsOf(command: string, at: string): string[] {
  const words = [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
  if (words[0] === 'node') return words.slice(1);
  if (words[0] === 'npx' && words[1] === 'perdure') return [join(root, 'dist/cli/main.js'), ...words.slice(2)];
  if (words[0] === 'npx' && words[1] === 'vitest')
    return [join(root, 'node_modules/vitest/vitest.mjs'), ...words.slice(2)];
  if (words[0] === 'npx' && words[1] === 'eslint')
    return [join(root, 'node_modules/eslint/bin/eslint.js'), ...words.slice(2)];
  throw new Error(`${at}: only node, npx perdure, npx vitest and npx eslint are run here, not ${command}`);
}

/** Returns true if the printed text is the text of the page, where `…` stands for anything on its line. */
function fits(printed: string, said: readonly string[]): boolean {
  const lines = printed.replace(/\n$/, '').split('\n');
  if (said.length === 0) return printed === '';
  return lines.length === said.length && said.every((line, i) => pattern(line).test(lines[i] ?? ''));
}

function pattern(line: string): RegExp {
  return new RegExp(
    `^${line
      .split('…')
      .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
      .join('.*')}$`,
  );
}
