// Every code block of the guide is compiled and run, and prints the text in its page. A TypeScript file that a block
// names is compiled: see support/docs.ts. SQL is run by privileges.test.ts. `sh` blocks are not run.

import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { Client as PgClient } from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

import { parsePage, readPages, Site } from './support/docs.ts';
import { POSTGRES_URL, temporaryFolder } from './support/providers.ts';

vi.setConfig({ testTimeout: 300_000 });

const pages = readPages();

function siteOf(pages: Parameters<Site['compile']>[0]): Site {
  const folder = temporaryFolder();
  afterAll(() => rmSync(folder, { recursive: true }));
  return new Site(folder, pages);
}

describe('the guide', () => {
  const site = siteOf(pages);

  // These pages have a database of their own: they name their schemas as readers would.
  const database = `perdure_docs_${randomUUID()}`;
  const onServer = async (sql: string) => {
    const server = new PgClient({ connectionString: POSTGRES_URL });
    await server.connect();
    await server.query(sql);
    await server.end();
  };
  beforeAll(async () => {
    await onServer(`CREATE DATABASE "${database}"`);
    const url = new URL(POSTGRES_URL);
    url.pathname = `/${encodeURIComponent(database)}`;
    process.env.PERDURE_POSTGRES_URL = url.href;
  });
  afterAll(() => onServer(`DROP DATABASE "${database}" WITH (FORCE)`));

  it('has blocks of known kinds, which the compiler takes', () => {
    expect(pages.flatMap(({ problems }) => problems)).toEqual([]);
    expect(site.compile(pages)).toEqual([]);
  });

  it('has a table of contents with every page, in the order in which they lead on', () => {
    const index = pages.find(({ name }) => name === 'docs/README.md');
    const listed = index?.links.filter((link) => link.startsWith('docs/')) ?? [];
    expect([...listed].sort()).toEqual(
      pages.map(({ name }) => name).filter((name) => name !== 'README.md' && name !== 'docs/README.md'),
    );
    const next = (name: string) => pages.find((page) => page.name === name)?.links.at(-1);
    expect(listed.map(next)).toEqual([...listed.slice(1), 'examples/README.md']);
  });

  it.each(pages)('the blocks of $name print the text below them', async (page) => {
    expect((await site.run(page)).join('\n')).toBe('');
  });
});

describe('the check of the guide', () => {
  const fenced = (kind: string, code: string) => `\`\`\`${kind}\n${code}\n\`\`\`\n`;
  const page = (name: string, ...blocks: string[]) => parsePage(`docs/${name}.md`, `# A page\n\n${blocks.join('\n')}`);

  it.each([
    ['a kind that is not run', fenced('python', 'print(1)'), /docs\/page\.md:3: a block of kind 'python'/],
    ['a block without a kind', fenced('', 'x'), /kind ''/],
    ['text that nothing printed', fenced('text', 'x'), /what printed this text/],
    ['an indented block', '- item\n  ```ts\n  ```', /at the start of its line/],
    ['a block without an end', '```ts\n1;', /has no end/],
    ['a link to nothing', 'See [that](that.md#part).', /there is no docs\/that\.md/],
  ])('sees %s', (_, block, problem) => {
    expect(page('page', block).problems.join('\n')).toMatch(problem);
  });

  it('reports an error of the compiler at its line in the page', () => {
    const wrong = page('types', fenced('ts', 'const a: number = 1;'), fenced('ts', "const b: number = 'one';"));
    expect(siteOf([wrong]).compile([wrong])).toEqual([
      expect.stringMatching(/^docs\/types\.md:8: Type 'string' is not assignable/),
    ]);
  });

  it('reports an error of the compiler in a named file, with the imports of Node and of a bundler', () => {
    const wrong = page(
      'files',
      fenced('ts setup.mts', "import { a } from './other.mjs';\nexport const b: string = a;"),
      fenced('ts other.mts', 'export const a = 1;'),
      fenced('ts app/[[...path]]/route.ts', "import { c } from '../../shared';\nexport const d: string = c;"),
      fenced('ts shared.ts', 'export const c = 2;'),
      fenced('ts extension.mts', "export * from './other';"),
    );
    const type = 'Type .number. is not assignable to type .string.';
    expect(siteOf([wrong]).compile([wrong]).sort()).toEqual([
      expect.stringMatching(`^docs/files\\.md:14: ${type}`),
      expect.stringMatching(/^docs\/files\.md:22: .*need explicit file extensions/),
      expect.stringMatching(`^docs/files\\.md:5: ${type}`),
    ]);
  });

  it('reports missing output, unexpected output and a failure', async () => {
    const log = (text: string) => fenced('ts', `console.log('${text}');`);
    const right = page(
      'right',
      log('a'),
      fenced('text', 'a'),
      log('b at 12:34'),
      fenced('text', 'b at …'),
      fenced('ts', 'let c;'),
    );
    const other = page('other', log('a'), fenced('text', 'b'));
    const unsaid = page('unsaid', log('a'));
    const failing = page('failing', fenced('ts', "throw new Error('so');"), log('b'), fenced('text', 'b'));
    const all = [right, other, unsaid, failing];
    const site = siteOf(all);
    expect(site.compile(all)).toEqual([]);
    expect(await site.run(right)).toEqual([]);
    expect(await site.run(other)).toEqual([
      expect.stringMatching(/^docs\/other\.md:3: the page says\s+b\s+and it printed\s+a/),
    ]);
    expect(await site.run(unsaid)).toEqual([expect.stringMatching(/^docs\/unsaid\.md:3:/)]);
    expect((await site.run(failing)).join('\n')).toMatch(
      /Error: so[^]*page\.ts:4[^]*the program had ended[^]*ended with 1/,
    );
  });

  it('runs the commands of a terminal on the files of the page', async () => {
    const file = fenced(
      'js say.mjs',
      "console.log('says', process.argv[2]);\nif (process.argv[2] === 'no') process.kill(process.pid, 'SIGKILL');",
    );
    const right = page(
      'right',
      file,
      fenced('console', '$ node say.mjs yes\nsays yes\n$ node say.mjs no\nsays no\nKilled'),
    );
    const wrong = page('wrong', file, fenced('console', '$ node say.mjs no\nsays no'));
    const site = siteOf([right, wrong]);
    expect(await site.run(right)).toEqual([]);
    expect(await site.run(wrong)).toEqual([
      expect.stringMatching(/^docs\/wrong\.md:9: .*\s+says no\s+and it printed\s+says no\nKilled/),
    ]);
  });
});
