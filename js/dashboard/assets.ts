// The files of the page, which the build puts next to this one. Each is served under a name that changes with its
// content.

import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

import { Refusal } from './refusal.ts';

const TYPES = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
} as const;

/** The files of the page. The first one is the page itself, which refers to the others. */
const FILES = ['index.html', 'page.js', 'page.css', 'icon.svg'] as const;

interface Asset {
  readonly type: string;
  readonly etag: string;
  readonly isPage: boolean;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly zipped: Uint8Array<ArrayBuffer>;
}

/** The files by their paths below the dashboard's. They are read at the first request, and kept. */
let assets: Promise<ReadonlyMap<string, Asset>> | undefined;

/** True if the path is that of the page or of one of its files. */
export function isAsset(path: string): boolean {
  return path === '' || path.startsWith('assets/');
}

/** @throws Refusal when there is no such file */
export async function assetAnswer(path: string, request: Request): Promise<Response> {
  assets ??= readAssets();
  const asset = (await assets).get(path);
  if (asset === undefined) throw new Refusal(404, 'NOT_FOUND', 'not found');
  const { type, etag, isPage, bytes, zipped } = asset;
  const headers: Record<string, string> = {
    etag,
    // A changed file has another name. The page always has the same one.
    'cache-control': isPage ? 'no-cache' : 'public, max-age=31536000, immutable',
    vary: 'accept-encoding',
  };
  if (request.headers.get('if-none-match') === etag) return new Response(null, { status: 304, headers });
  const isZipped = /\bgzip\b/.test(request.headers.get('accept-encoding') ?? '');
  headers['content-type'] = type;
  if (isZipped) headers['content-encoding'] = 'gzip';
  const body = isZipped ? zipped : bytes;
  headers['content-length'] = String(body.byteLength);
  return new Response(request.method === 'HEAD' ? null : body, { headers });
}

async function readAssets(): Promise<ReadonlyMap<string, Asset>> {
  const [index, ...others] = FILES;
  const read = (file: string): Promise<string> => readFile(new URL(`page/${file}`, import.meta.url), 'utf8');
  const found = new Map<string, Asset>();
  let page = await read(index);
  for (const file of others) {
    const text = await read(file);
    const asset = await assetOf(file, text, false);
    const name = `assets/${file.replace('.', `-${asset.etag.slice(1, 13)}.`)}`;
    page = page.replaceAll(`"./${file}"`, `"./${name}"`);
    found.set(name, asset);
  }
  return found.set('', await assetOf(index, page, true));
}

async function assetOf(file: string, text: string, isPage: boolean): Promise<Asset> {
  const ending = file.slice(file.lastIndexOf('.') + 1) as keyof typeof TYPES;
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 32);
  const bytes = new TextEncoder().encode(text);
  return {
    type: TYPES[ending],
    etag: `"${hash}"`,
    isPage,
    bytes,
    zipped: new Uint8Array(await promisify(gzip)(bytes)),
  };
}
