// The site of the guide and the reference is made without a warning, and every link in it leads to a page.

import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';

import { temporaryFolder } from './support/providers.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = temporaryFolder();
afterAll(() => rmSync(folder, { recursive: true }));

let pages: string[];

beforeAll(() => {
  // A warning about a comment or a link makes the script fail, and is part of the error's message.
  execFileSync(process.execPath, ['scripts/site.mjs', folder], { cwd: root, encoding: 'utf8', stdio: 'pipe' });
  pages = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.html'));
}, 300_000);

it('has each page of the guide and a page for each entry of the package', () => {
  const guide = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md') && name !== 'README.md');
  expect(readdirSync(join(folder, 'documents'))).toHaveLength(guide.length);
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    exports: Record<string, object | string>;
  };
  const entries = Object.entries(exports).filter(([, target]) => typeof target === 'object');
  const modules = entries.map(([entry]) => `${entry.replace('.', 'perdure').replaceAll('/', '_')}.html`);
  expect(readdirSync(join(folder, 'modules')).sort()).toEqual(modules.sort());
  expect(pages).toContain(join('classes', 'perdure.Client.html'));
});

it('has no link to nothing, and needs nothing from elsewhere', () => {
  const missing: string[] = [];
  for (const page of pages) {
    const html = readFileSync(join(folder, page), 'utf8');
    for (const [, link = ''] of html.matchAll(/(?:href|src)="([^"#?]+)[^"]*"/g)) {
      if (/^[a-z]+:/.test(link)) continue;
      if (!existsSync(join(folder, dirname(page), decodeURIComponent(link)))) missing.push(`${page} -> ${link}`);
    }
    for (const [, source = ''] of html.matchAll(/<(?:script|img|link)[^>]+(?:src|href)="([^"]+)"/g))
      expect(source).not.toMatch(/^(https?:)?\/\//);
  }
  expect(missing).toEqual([]);
});
