// Measures of readable sources and documents: the words of their comments and prose, the length of their lines,
// functions and files.

import ts from 'typescript';

/** One comment: a block, or line comments that follow each other. */
export interface Comment {
  readonly line: number;
  /** Its words, without the marks of a comment. */
  readonly text: string;
}

/** Words that name no one: the noun is better. */
const VAGUE = /\b(nobody|whoever|whatever|whichever|somebody|anybody)\b/gi;
/** First words of a sentence that puts its subject last. */
const SUBJECT_LAST = /^(What|Whether|Who|How|It|Of)\b/;

export const LINE_MAX = 120;
export const FILE_MAX = 600;
export const FUNCTION_MAX = 70;

/** The comments of a source, TypeScript or Rust, but for those behind code. */
export function commentsOf(source: string): Comment[] {
  const comments: Comment[] = [];
  let open: { line: number; parts: string[]; isBlock: boolean } | undefined;
  const end = (): void => {
    const text = open?.parts.join(' ').replace(/\s+/g, ' ').trim() ?? '';
    if (open !== undefined && text !== '') comments.push({ line: open.line, text });
    open = undefined;
  };
  for (const [at, whole] of source.split('\n').entries()) {
    const line = whole.trim();
    const isBegun = open?.isBlock === true;
    if (!isBegun && line.startsWith('/*')) {
      end();
      open = { line: at + 1, parts: [], isBlock: true };
    }
    if (open?.isBlock === true) {
      open.parts.push(line.replace(isBegun ? /^\*+(?!\/)/ : /^\/\*+/, '').replace(/\*+\/.*$/, ''));
      if (line.includes('*/')) end();
      continue;
    }
    const said = /^\/\/[/!]?(.*)/.exec(line)?.[1];
    if (said === undefined) {
      end();
      continue;
    }
    open ??= { line: at + 1, parts: [], isBlock: false };
    open.parts.push(said);
  }
  end();
  return comments;
}

/** One part of a document: a paragraph, a list item, a heading or a row of a table. */
export interface Passage {
  readonly kind: 'text' | 'heading' | 'row';
  readonly line: number;
  /** Its words, without code, marks of lists and emphasis. */
  readonly text: string;
}

/** Returns the parts of a Markdown document, except for code blocks and HTML comments. */
export function passagesOf(markdown: string): Passage[] {
  const passages: { kind: Passage['kind']; line: number; parts: string[] }[] = [];
  let isOpen = false;
  for (const { line, text } of proseLines(markdown)) {
    const item = /^\s*(?:[-*]|\d+\.) (?:\[.\] )?(.*)/.exec(text)?.[1];
    const kind = /^#+ /.test(text) ? 'heading' : text.startsWith('|') ? 'row' : 'text';
    if (kind === 'text' && item === undefined && isOpen && text.trim() !== '') {
      passages.at(-1)?.parts.push(text.trim());
      continue;
    }
    isOpen = kind === 'text' && text.trim() !== '';
    if (text.trim() !== '') passages.push({ kind, line, parts: [item ?? text.trim()] });
  }
  return passages.map(({ kind, line, parts }) => ({ kind, line, text: wordsOf(parts.join(' ')) }));
}

/** Returns the numbers of the long lines of a document. Tables, code blocks and targets of links may be long. */
export function longProseLines(markdown: string): number[] {
  return proseLines(markdown).flatMap(({ line, text }) => {
    const isLong = [...text.replace(/\]\([^)]*\)/g, ']')].length > LINE_MAX;
    return isLong && !text.startsWith('|') ? [line] : [];
  });
}

/** Returns the lines outside of code blocks and HTML comments. The lines of these are blank in the result. */
function proseLines(markdown: string): { line: number; text: string }[] {
  const blank = (block: string): string => block.replace(/[^\n]/g, '');
  const prose = markdown.replace(/^```[^]*?^```$/gm, blank).replace(/<!--[^]*?-->/g, blank);
  return prose.split('\n').map((text, at) => ({ line: at + 1, text }));
}

function wordsOf(passage: string): string {
  return passage.replace(/`[^`]*`/g, '…').replace(/^[#>*_ ]+/, '');
}

export function vagueWords(text: string): number {
  return text.match(VAGUE)?.length ?? 0;
}

export function putsSubjectLast(text: string): boolean {
  return SUBJECT_LAST.test(text);
}

export function wordCount(text: string): number {
  return text.split(' ').length;
}

/** Numbers of the lines that are too long. */
export function longLines(source: string): number[] {
  return source.split('\n').flatMap((line, at) => ([...line].length > LINE_MAX ? [at + 1] : []));
}

/** Returns the names of the long functions. Callbacks do not count: those of tests hold other functions. */
export function longFunctions(file: string, source: string): string[] {
  return file.endsWith('.rs') ? longRustFunctions(source) : longScriptFunctions(file, source);
}

function longScriptFunctions(file: string, source: string): string[] {
  const parsed = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true);
  const lineOf = (position: number): number => parsed.getLineAndCharacterOfPosition(position).line;
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    const isNamed = ts.isFunctionDeclaration(node) || ts.isMethodDeclaration(node) || ts.isConstructorDeclaration(node);
    if (isNamed && lineOf(node.getEnd()) - lineOf(node.getStart()) >= FUNCTION_MAX) {
      found.push(ts.isConstructorDeclaration(node) ? 'constructor' : (node.name?.getText() ?? 'default'));
    }
    ts.forEachChild(node, visit);
  };
  visit(parsed);
  return found;
}

/** Reads sources that rustfmt has formatted: a function ends at the brace below its `fn`. */
function longRustFunctions(source: string): string[] {
  const found: string[] = [];
  const open: { name: string; indent: number; line: number }[] = [];
  for (const [at, line] of source.split('\n').entries()) {
    const head = /^(\s*)(?:pub(?:\([^)]*\))? )?(?:const |async |unsafe )*fn (\w+)/.exec(line);
    if (head !== null && !/[;}]$/.test(line))
      open.push({ name: head[2] ?? '', indent: (head[1] ?? '').length, line: at });
    const innermost = open.at(-1);
    const close = /^(\s*)(}|.*;$)/.exec(line);
    if (innermost === undefined || head !== null || close === null || (close[1] ?? '').length !== innermost.indent)
      continue;
    open.pop();
    if (at - innermost.line >= FUNCTION_MAX) found.push(innermost.name);
  }
  return found;
}
