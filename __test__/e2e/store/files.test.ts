import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { Client, ProviderError, Runtime, SchemaVersionError, SqliteProvider } from 'perdure';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import '../../support/leaks.ts';
import { temporaryFolder } from '../../support/providers.ts';
import { SOON } from '../../support/store.ts';

// Files that may be at the path of an SQLite store, and the errors about them. A file that is not ours is never written
// to.

const folder = temporaryFolder();
afterAll(() => rmSync(folder, { recursive: true }));

let path: string;
let files = 0;
beforeEach(() => {
  files += 1;
  path = join(folder, `store-${files}.db`);
});

/** Offsets of `PRAGMA user_version` and `PRAGMA application_id` in SQLite's header (fileformat2, 1.3). */
const USER_VERSION_AT = 60;
const APPLICATION_ID_AT = 68;

/** SQLite's default page size, and the first byte of a page of table rows (fileformat2, 1.6). */
const PAGE = 4_096;
const TABLE_LEAF = 0x0d;

/** Makes a closed store with a finished instance in it. */
async function makeStore(): Promise<void> {
  const provider = await SqliteProvider.open(path);
  const runtime = new Runtime(provider);
  runtime.registerOrchestration('echo', function* (_, input) {
    return input;
  });
  await runtime.start();
  const client = new Client(provider);
  const starts = Array.from({ length: 200 }, (_, i) => client.startOrchestration(`i-${i}`, 'echo', 'x'.repeat(500)));
  await Promise.all(starts);
  for (let i = 0; i < 200; i += 1) await client.waitForOrchestration(`i-${i}`, SOON);
  await runtime.shutdown();
  await provider.close();
}

function patch(at: number, bytes: Uint8Array): void {
  const file = openSync(path, 'r+');
  writeSync(file, bytes, 0, bytes.length, at);
  closeSync(file);
}

function uint32(value: number): Uint8Array {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function readUint32(at: number): number {
  const bytes = Buffer.alloc(4);
  const file = openSync(path, 'r');
  readSync(file, bytes, 0, 4, at);
  closeSync(file);
  return bytes.readUInt32BE();
}

/** Returns the error that refuses to open the file. Nothing has changed by then. */
async function refusal(): Promise<any> {
  const before = existsSync(path) && statSync(path).isFile() ? readFileSync(path) : undefined;
  const error = await rejection(SqliteProvider.open(path));
  if (before !== undefined) {
    expect(readFileSync(path).equals(before), 'the file was left as it was').toBe(true);
    expect(
      readdirSync(folder).filter((name) => name.startsWith(`store-${files}.db-`)),
      'nothing was put beside it',
    ).toEqual([]);
  }
  expect(error.message).toContain(path);
  // No descriptor holds the file any more.
  expect(openFiles()).toEqual([]);
  return error;
}

/** Returns the files of the folder that this process has open, if the system lists them. */
function openFiles(): string[] {
  if (!existsSync('/proc/self/fd')) return [];
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${fd}`);
      return target.startsWith(folder) ? [target] : [];
    } catch {
      return [];
    }
  });
}

it('a store is created, opened again with its content, and released by close', async () => {
  await makeStore();
  expect(readdirSync(folder).filter((name) => name.startsWith(`store-${files}`))).toEqual([`store-${files}.db`]);
  expect(openFiles()).toEqual([]);
  const provider = await SqliteProvider.open(path, { durability: 'normal' });
  expect(await new Client(provider).getStatus('i-199')).toMatchObject({ status: 'Completed', output: 'x'.repeat(500) });
  await provider.close();
  expect(openFiles()).toEqual([]);
});

it('an empty file becomes a store', async () => {
  writeFileSync(path, '');
  await makeStore();
});

it('is found through a symbolic link, and under names that mean something to SQLite', async () => {
  await makeStore();
  const link = join(folder, `file:link-${files}.db?mode=memory`);
  symlinkSync(path, link);
  const provider = await SqliteProvider.open(link);
  expect(await new Client(provider).getStatus('i-0')).toMatchObject({ status: 'Completed' });
  await provider.close();
  rmSync(link);
});

describe('a path that cannot be opened', () => {
  it('reports a missing directory, and works when it exists', async () => {
    const directory = join(folder, 'to', 'come');
    path = join(directory, 'store.db');
    const error = await refusal();
    expect(error).toBeInstanceOf(ProviderError);
    expect(error).toMatchObject({ code: 'PROVIDER', retryable: false });
    expect(error.message).toContain(`the directory '${directory}' does not exist; create it first`);
    expect(existsSync(join(folder, 'to'))).toBe(false);
    mkdirSync(directory, { recursive: true });
    await (await SqliteProvider.open(path)).close();
  });

  it('reports a directory in place of the file', async () => {
    mkdirSync(path);
    const error = await refusal();
    expect(error).toBeInstanceOf(ProviderError);
    expect(error.message).toMatch(/it is a directory; name a file in it/);
    expect(readdirSync(path)).toEqual([]);
  });

  it('reports a file in place of a directory', async () => {
    writeFileSync(path, 'x');
    path = join(path, 'store.db');
    expect(await refusal()).toMatchObject({ name: 'ProviderError', message: expect.stringContaining('director') });
  });

  it.runIf(existsSync('/dev/null'))('reports a path that is not a regular file', async () => {
    path = '/dev/null';
    expect(await refusal()).toMatchObject({
      name: 'ProviderError',
      message: expect.stringContaining('not a regular file'),
    });
  });

  it.each<[any, RegExp]>([
    ['', /path/],
    ['a\0b', /path/],
    [undefined, /path/],
    [5, /path/],
    [':memory:', /inMemory/],
    ['postgres://ann:secret@h/shop', /PostgresProvider\.connect\(url\)/],
    ['postgresql://h/shop', /PostgresProvider\.connect\(url\)/],
    ['sqlite:app.db', /leave out 'sqlite:' and pass a path, such as 'app\.db'/],
    ['sqlite:///tmp/app.db', /leave out 'sqlite:'/],
    ['file:app.db', /leave out 'file:' and pass a path, such as fileURLToPath\(url\)/],
    ['libsql://ann:secret@h', /leave out 'libsql:'/],
  ])('is refused as an argument: %o', async (wrong, message) => {
    const error = await rejection(SqliteProvider.open(wrong));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toMatch(message);
    expect(error.message).not.toContain('secret');
  });

  it('may have a name with a colon', async () => {
    const path = join(folder, 'orders: 2026.db');
    await (await SqliteProvider.open(path)).close();
    expect(existsSync(path)).toBe(true);
  });

  it('is refused with options that do not exist', async () => {
    const error = await rejection(SqliteProvider.open(path, { durabilty: 'full' } as any));
    expect(error).toMatchObject({ name: 'TypeError', message: expect.stringContaining('`durability`') });
    expect(await rejection(SqliteProvider.open(path, { durability: 'ful' as any }))).toMatchObject({
      name: 'TypeError',
    });
    expect(existsSync(path)).toBe(false);
  });
});

describe('a file that is no store', () => {
  it.each([
    ['text', 'this is a text, and not a short one: it is longer than the header of a database.\n'.repeat(20)],
    ['a short text', 'hello'],
    ['bytes', Buffer.alloc(8_192, 0xa5)],
    ['zeros', Buffer.alloc(4_096)],
  ])('is told apart: %s', async (_, content) => {
    writeFileSync(path, content);
    const error = await refusal();
    expect(error).toBeInstanceOf(ProviderError);
    expect(error).toMatchObject({ retryable: false });
    expect(error.message).toMatch(/not a Perdure store/);
  });

  it('is refused if it is the database of another application', async () => {
    await makeStore();
    patch(APPLICATION_ID_AT, uint32(0x1234_5678));
    const error = await refusal();
    expect(error).toBeInstanceOf(ProviderError);
    expect(error.message).toMatch(/not a Perdure store: it is the SQLite file of another application/);
  });
});

describe('a store of a newer Perdure', () => {
  it('is left alone', async () => {
    await makeStore();
    const supported = readUint32(USER_VERSION_AT);
    expect(supported).toBeGreaterThan(0);
    patch(USER_VERSION_AT, uint32(4711));
    const error = await refusal();
    expect(error).toBeInstanceOf(SchemaVersionError);
    expect(error).toMatchObject({
      code: 'SCHEMA_VERSION',
      found: 4711,
      supported,
      message: expect.stringContaining('newer Perdure'),
    });
    patch(USER_VERSION_AT, uint32(supported));
    await (await SqliteProvider.open(path)).close();
  });
});

describe('a damaged store', () => {
  const damage: [string, () => void][] = [
    ['a header without sense', () => patch(16, Buffer.alloc(80, 0xff))],
    ['a schema page that was overwritten', () => patch(100, Buffer.alloc(3_900, 0xee))],
    ['cut off after its first page', () => truncateSync(path, PAGE)],
    ['cut off in its first page', () => truncateSync(path, 1_000)],
    ['all pages after the first overwritten', () => patch(PAGE, Buffer.alloc(statSync(path).size - PAGE, 0x5a))],
  ];

  it.each(damage)('is reported at open: %s', async (_, act) => {
    await makeStore();
    act();
    const error = await refusal();
    expect(error).toBeInstanceOf(ProviderError);
    expect(error).toMatchObject({ retryable: false });
    expect(error.message).toMatch(/is damaged|not a Perdure store/);
    expect(error.message, 'no payload in it').not.toContain('xxxx');
  });

  it('is reported when it is read, if opening does not read it, and the rest still works', async () => {
    await makeStore();
    // Damages a page of rows in the middle of the histories: opening looks only at the ends of the trees.
    const content = readFileSync(path);
    const pages = Array.from({ length: content.length / PAGE }, (_, i) => content.subarray(i * PAGE, (i + 1) * PAGE));
    const rows = pages.flatMap((page, i) => (page[0] === TABLE_LEAF && page.includes('x'.repeat(500)) ? [i] : []));
    const middle = rows[Math.floor(rows.length / 2)] ?? 0;
    expect(middle).toBeGreaterThan(0);
    patch(middle * PAGE, Buffer.alloc(PAGE, 0x5a));
    const provider = await SqliteProvider.open(path);
    const client = new Client(provider);
    const reads = await Promise.allSettled(
      Array.from({ length: 200 }, async (_, i) => [
        await client.getStatus(`i-${i}`),
        await client.getHistory(`i-${i}`),
      ]),
    );
    const failed = reads.filter((read) => read.status === 'rejected').map((read) => read.reason);
    expect(failed.length).toBeGreaterThan(0);
    expect(failed.length).toBeLessThan(200);
    for (const error of failed) {
      expect(error).toBeInstanceOf(ProviderError);
      expect(error).toMatchObject({ retryable: false, message: expect.stringContaining('is damaged') });
    }
    await provider.close();
  });
});
