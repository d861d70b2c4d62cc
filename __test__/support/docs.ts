// Pages of documentation as programs: their code blocks are taken out, checked by the compiler, run, and what they print is
// compared with what the page says they print.
//
// What a block is says its info string:
//
//   ts, js             part of the page's program: all of them in order are one module, run as one process
//   js name.mjs        a file of that name, for the page's commands (json and others likewise)
//   ts name.mts        a file of that name, too, which is compiled by itself: `.mts` as Node finds what it imports, `.ts` as bundlers do,
//                      for it is a file of a framework. It is run only if a command does
//   console            a terminal: each line that begins with `$ ` is run, the others are what was printed
//   text               what the block before it printed; `…` stands for anything on its line
//   sh                 for the reader to type: not run
//
// A block within an HTML comment is run as any other: that is how a page ends its program without showing it.

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

const root = fileURLToPath(new URL('../..', import.meta.url));

/** How long a program of a page may run, ms. */
const RUN_MAX_MS = 60_000;

/** What pages use besides Perdure and Node: packages, or scopes of them. */
const OTHERS = ['vitest', 'zod', 'express', 'fastify', 'hono', 'pino', '@opentelemetry', '@types'];

/** Files that the compiler looks at. */
const TYPESCRIPT = /\.[mc]?tsx?$/;

const OPTIONS: ts.CompilerOptions = {
  strict: true,
  // What Node itself can run as it stands, by leaving the types out.
  erasableSyntaxOnly: true,
  verbatimModuleSyntax: true,
  target: ts.ScriptTarget.ES2023,
  lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts'],
  types: ['node'],
  typeRoots: [join(root, 'node_modules/@types')],
  skipLibCheck: true,
};

/** What ends a block's part of the program's output. No page prints it. */
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
  /** Files that it links to, relative to the root of the repository. */
  readonly links: readonly string[];
  /** Sentences about blocks that cannot be checked. */
  readonly problems: readonly string[];
}

/** All pages of the guide, and the README that leads to them. */
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

/** The page's program: every line where it stands in the page, so that the compiler and stacks name the page's lines. */
function programOf({ blocks }: Page): string {
  const lines: string[] = [];
  for (const { line, code } of blocks.filter(isProgram)) {
    while (lines.length < line) lines.push('');
    lines.push(...code, `;console.log(${JSON.stringify(END)});`);
  }
  return `${lines.join('\n')}\nexport {};\n`;
}

/** Pages in a folder, where they find the built package as their readers do: in node_modules. */
export class Site {
  readonly #folder: string;

  /** @param folder - empty; whoever gives it takes it away */
  constructor(folder: string, pages: readonly Page[]) {
    this.#folder = folder;
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }\n');
    mkdirSync(join(folder, 'node_modules'));
    symlinkSync(root, join(folder, 'node_modules/perdure'), 'junction');
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

  /** Compile the programs and the TypeScript files of all pages; what the compiler has to say, as `docs/page.md:12: …`. */
  compile(pages: readonly Page[]): string[] {
    const ours = new Map<string, { page: Page; before: number }>();
    for (const page of pages) {
      ours.set(this.#path(page, 'page.ts'), { page, before: 0 });
      for (const { file, line } of page.blocks)
        if (file !== undefined && TYPESCRIPT.test(file)) ours.set(this.#path(page, file), { page, before: line });
    }
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

  /** Run a page's program and its commands; each place where the page does not say what they print, as a sentence. */
  async run(page: Page): Promise<string[]> {
    const found: string[] = [];
    const compare = (line: number, said: readonly string[], printed: string): void => {
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
        // A shell says so too.
        const printed = end === 'SIGKILL' ? `${output}Killed\n` : output;
        compare(line + 1 + i, code.slice(i + 1, next < 0 ? undefined : next), printed);
      }
    }
    return found;
  }

  /** One process in the page's folder: all that it printed, and its exit code or signal. */
  #node(page: Page, args: readonly string[]): Promise<{ output: string; end: string }> {
    const path = this.#path(page, 'output');
    // Both streams into one file, as a terminal shows them.
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

/** What Node is given for a command of a page: `node file.mjs`, or `npx perdure` or `npx vitest` with its arguments, some of them between single quotes. */
function argumentsOf(command: string, at: string): string[] {
  const words = [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
  if (words[0] === 'node') return words.slice(1);
  if (words[0] === 'npx' && words[1] === 'perdure') return [join(root, 'dist/cli/main.js'), ...words.slice(2)];
  if (words[0] === 'npx' && words[1] === 'vitest')
    return [join(root, 'node_modules/vitest/vitest.mjs'), ...words.slice(2)];
  throw new Error(`${at}: only node, npx perdure and npx vitest are run here, not ${command}`);
}

/** Whether a text is what the page says, where `…` stands for anything on its line. */
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
