// A headless Chromium for the tests of the page.

import { accessSync, constants, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';

import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest';

/** A script that defines the global `ace`. */
const CHECKER = readFileSync(
  createRequire(import.meta.url).resolve('accessibility-checker-engine/ace-window.js'),
  'utf8',
);

/** A violation of one rule by one element, as the checker finds it. */
interface Violation {
  readonly ruleId: string;
  readonly message: string;
  readonly snippet: string;
}

const NAMES = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** @throws Error that says what to do, if there is no browser */
function executable(): string {
  const named = process.env.PERDURE_TEST_CHROMIUM;
  if (named) return named;
  const found = (process.env.PATH ?? '')
    .split(delimiter)
    .flatMap((folder) => NAMES.map((name) => join(folder, name)))
    .find(isProgram);
  if (found === undefined)
    throw new Error(
      'there is no Chromium to test the dashboard in: ' +
        'install one (apt-get install chromium-headless-shell), or name it in PERDURE_TEST_CHROMIUM',
    );
  return found;
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Launches a browser outside of a test. */
export function launch(): Promise<Browser> {
  // Root has no sandbox, and a container has little shared memory. The browser opens nothing but the dashboard.
  return chromium.launch({ executablePath: executable(), args: ['--no-sandbox', '--disable-dev-shm-usage'] });
}

/**
 * Returns a browser for the tests of a file. Each page that it opens is closed with its test, which fails if the page
 * has reported an error.
 */
export function useBrowser(): { open(url: string, options?: BrowserContextOptions): Promise<Page> } {
  let browser: Browser | undefined;
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser?.close());
  return {
    async open(url, options = {}) {
      const context = await (browser as Browser).newContext({
        viewport: { width: 1280, height: 900 },
        reducedMotion: 'reduce',
        ...options,
      });
      const page = await context.newPage();
      const errors: string[] = [];
      page.on('pageerror', (error) => errors.push(String(error)));
      page.on('console', (message) => {
        // Chromium also reports refused requests here. They are no errors of the page.
        if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
          errors.push(message.text());
      });
      onTestFinished(async () => {
        await context.close();
        expect(errors).toEqual([]);
      });
      await page.goto(url);
      return page;
    },
  };
}

/** The windows in which a page must be accessible. The looks of a page do not depend on the store: see ANY_STORE. */
export const LOOKS = [
  { colorScheme: 'light' },
  { colorScheme: 'dark' },
  { colorScheme: 'light', viewport: { width: 360, height: 740 } },
] as const satisfies readonly BrowserContextOptions[];

/** Returns the accessibility problems of the page, for users with little or no sight, as sentences. */
export async function obstacles(page: Page): Promise<string[]> {
  if (await page.evaluate(`typeof ace === 'undefined'`)) await page.evaluate(CHECKER);
  // Behind an open dialog, nothing can be reached.
  const shown = `document.querySelector('dialog:modal') ?? document`;
  // The checker also reports each rule that an element keeps: thousands of findings, which stay in the page.
  const violations = (await page.evaluate(`new ace.Checker().check(${shown}, ['WCAG_2_2']).then(({ results }) =>
    results.filter(({ value: [sort, found] }) => sort === 'VIOLATION' && found === 'FAIL'))`)) as readonly Violation[];
  return violations.map(({ ruleId, message, snippet }) => `${ruleId}: ${message}: ${snippet}`);
}

/** Returns the width by which the page exceeds its window, px. */
export function overflow(page: Page): Promise<number> {
  return page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth');
}
