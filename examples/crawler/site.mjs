// A website to crawl: the documentation of this package, served on a free port of this machine.

import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';

const root = new URL('../../docs/', import.meta.url);

/** Serves the site. Returns its address, the addresses that were asked for, each with the time, and its end. */
export async function serveSite() {
  const asked = [];
  const server = createServer(async (request, response) => {
    asked.push({ path: request.url, at: Date.now() });
    try {
      const { type, body } = await read(decodeURIComponent(request.url));
      response.writeHead(200, { 'content-type': type }).end(body);
    } catch {
      response.writeHead(404, { 'content-type': 'text/plain' }).end('not found');
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = () => new Promise((resolve) => server.close(resolve).closeAllConnections());
  return { address: `http://127.0.0.1:${server.address().port}/`, asked, close };
}

async function read(path) {
  const file = new URL(`.${path.endsWith('/') ? `${path}README.md` : path}`, root);
  if (!file.href.startsWith(root.href)) throw new Error('it is outside of the site');
  const bytes = await readFile(fileURLToPath(file));
  if (!file.pathname.endsWith('.md')) return { type: 'application/octet-stream', body: bytes };
  const text = bytes.toString().replace(/&/g, '&amp;').replace(/</g, '&lt;');
  const html = text.replace(/\[([^\]]*)\]\(([^()\s]+)\)/g, '<a href="$2">$1</a>');
  return { type: 'text/html; charset=utf-8', body: `<!doctype html><meta charset="utf-8"><pre>${html}</pre>` };
}
