// An agent that streams the tokens of its answers to a page in a browser, while its worker is killed and the browser
// loses its connection.

import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import { eventStream } from 'perdure';
import type { Page } from 'playwright-core';
import { afterEach, describe, expect, it } from 'vitest';

import { useBrowser } from '../dashboard/browser.ts';
import { expectInvariants } from '../support/invariants.ts';
import { Process, root } from '../support/process.ts';
import { SHARED_STORES } from '../support/providers.ts';
import { useStore } from '../support/store.ts';

const TOKENS = 150;
/** The tokens at which a worker is killed, one after the other. */
const KILLED_AT = ['a40', 'a80', 'b60'];
const program = join(root, '__test__/crash/agent.mjs');

/** The page shows the parts of the answer that no later attempt has replaced. */
const PAGE = `<!doctype html><title>agent</title><p id="answer"></p><p id="state">open</p><script>
  const parts = [];
  let [resets, opens] = [0, 0];
  const show = () => {
    document.querySelector('#answer').textContent = parts.filter((part) => part !== undefined).join('');
    document.body.dataset.parts = parts.length;
    document.body.dataset.resets = resets;
    document.body.dataset.opens = opens;
  };
  const source = new EventSource('/stream');
  source.onopen = () => { opens += 1; show(); };
  source.onmessage = ({ data, lastEventId }) => { parts[Number(lastEventId)] = JSON.parse(data); show(); };
  source.addEventListener('reset', ({ data }) => { parts.length = JSON.parse(data).from; resets += 1; show(); });
  source.addEventListener('end', () => { source.close(); document.querySelector('#state').textContent = 'whole'; });
</script>`;

afterEach(async () => {
  await Promise.all([...Process.running].map((part) => part.kill()));
});

/** Resolves when an expression is true in a page. */
async function until(page: Page, expression: string): Promise<void> {
  await page.waitForFunction(expression, null, { timeout: 60_000 });
}

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const browser = useBrowser();
  afterEach(() => expectInvariants(store.address));

  /** Serves the page, and the stream of an instance. */
  async function serve(id: string): Promise<{ server: Server; url: string }> {
    const server = createServer((request, response) => {
      if (request.url !== '/stream') {
        response.writeHead(200, { 'content-type': 'text/html' }).end(request.url === '/' ? PAGE : '');
        return;
      }
      const headers = new Headers(request.headers as Record<string, string>);
      const { headers: own, body } = eventStream(store.client.readStream(id, 'tokens'), headers);
      response.writeHead(200, Object.fromEntries(own));
      const sent = Readable.fromWeb(body as ReadableStream);
      sent.pipe(response);
      response.once('close', () => sent.destroy());
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` };
  }

  it('the text on the page is whole and in order', async () => {
    const start = (hangsAt?: string): Process<{ type: 'ready' }, object> => {
      const options = { store: store.address, name: `worker until ${hangsAt}`, tokens: TOKENS, hangsAt };
      return new Process(options.name, [process.execPath, program, JSON.stringify(options)]);
    };
    const id = store.id();
    let worker = start(KILLED_AT[0]);
    await store.client.startOrchestration(id, 'agent');
    const { server, url } = await serve(id);
    try {
      const page = await browser.open(url);
      for (const [n, token] of KILLED_AT.entries()) {
        await until(page, `document.querySelector('#answer').textContent.endsWith('${token} ')`);
        await worker.kill();
        // The browser connects again, and names the entry that it has seen last.
        server.closeAllConnections();
        worker = start(KILLED_AT[n + 1]);
      }
      await until(page, `document.querySelector('#state').textContent === 'whole'`);
      const text = ['a', 'b']
        .map((q) => `[${q}: ${Array.from({ length: TOKENS }, (_, n) => `${q}${n} `).join('')}${TOKENS}]`)
        .join('');
      expect(await page.locator('#answer').textContent()).toBe(text);
      const seen = (what: string) => page.locator('body').getAttribute(`data-${what}`);
      expect(Number(await seen('resets'))).toBe(KILLED_AT.length);
      expect(Number(await seen('opens'))).toBeGreaterThan(1);
    } finally {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  }, 180_000);
});
