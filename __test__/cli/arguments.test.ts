// Messages about wrong arguments and about stores that are missing or of another release, and the shell's completion.

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SqliteProvider } from 'perdure';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { SHARED_STORES, temporaryFolder } from '../support/providers.ts';
import { makeDevelopmentStore } from '../support/rows.ts';
import { launch, MAIN, perdure, storeFlags, valuesOf } from './perdure.ts';

const folder = temporaryFolder();
afterAll(() => rmSync(folder, { recursive: true }));

const db = join(folder, 'arguments.db');

beforeAll(async () => (await SqliteProvider.open(db)).close());

describe('wrong arguments end a command before it starts, and the error names them', () => {
  it.each([
    [['lst'], "unknown command 'lst'\n(Did you mean list?)"],
    [['list', '--stauts', 'Running'], '(Did you mean --status?)'],
    [['list', '--status', 'Runing'], 'Did you mean Running?'],
    [['list', '--limit', '0'], 'a whole number >= 1'],
    [['list', '--tag', 'team'], 'name=value'],
    [['list', '--after', 'tomorrow'], "or an age such as '24h'"],
    [['list', '--cursor', 'x'], 'cursor must be the cursor of a page'],
    [['show'], "missing required argument 'id'"],
    [['show', 'a', 'b'], 'too many arguments'],
    [['start', 'order', '{bad'], 'write a text as \'"…"\', a file as @path, and standard input as -'],
    [['start', 'order', '@/no/such/file'], '/no/such/file cannot be read'],
    [['start', 'order', '--on-conflict', 'replace'], 'Allowed choices are error, return, restartIfTerminal'],
    [['start', 'order', '--wait', 'soon'], 'a duration such as'],
    [['export', 'a', '--name', 'order'], 'pass ids or filters, not both'],
    [['export'], 'pass an id'],
    [['schedules', 'nightly'], "no command 'nightly'; the commands are list, show, set,"],
    [['schedules', 'pause'], "missing required argument 'id'"],
    [['schedules', 'set', 'a', 'job'], 'one of --cron, --every and --at'],
    [['schedules', 'set', 'a', 'job', '--cron', '0 2 * * *', '--every', '1h'], 'one of --cron, --every and --at'],
    [['schedules', 'set', 'a', 'job', '--every', '1h', '--time-zone', 'UTC'], '--time-zone is for --cron'],
    [['schedules', 'set', 'a', 'job', '--cron', '0 2 * * *', '--offset', '1h'], '--offset is for --every'],
    [['schedules', 'set', 'a', 'job', '--cron', '61 * * * *'], "'61 * * * *' is no cron expression"],
    [['schedules', 'set', 'a', 'job', '--every', 'hourly'], 'a duration such as'],
    [['schedules', 'set', 'a', 'job', '--every', '1h', '--overlap', 'queue'], 'Allowed choices are skip, buffer'],
    [['schedules', 'set', 'a', 'job', '--at', '2030-01-31', '7d'], "a time such as '2030-01-31T12:00:00Z'"],
    [['schedules', 'backfill', 'a', '1d', '7d'], 'lies after its last time'],
    [['schedules', 'next', 'a', '0'], 'a whole number >= 1'],
    [['schedules', 'delete', 'a'], 'pass --yes to confirm'],
  ])('%j', async (args, message) => {
    const { code, out, err } = await perdure('--db', db, ...args);
    expect([code, out]).toEqual([2, '']);
    expect(err).toContain(message);
    expect(err).toMatch(/^perdure: /);
  });

  it('are reported as JSON with --json', async () => {
    const { code, err } = await perdure('--json', '--db', db, 'list', '--limit', 'x');
    expect(code).toBe(2);
    expect(JSON.parse(err)).toEqual({ error: { name: 'Error', message: expect.stringContaining('whole number') } });
  });
});

describe('a store', () => {
  it('must be selected', async () => {
    expect(await perdure('list')).toMatchObject({ code: 2, err: expect.stringContaining('PERDURE_DB') });
    expect(await launch(['list'], { env: { PERDURE_DB: db } }).ended).toMatchObject({ code: 0 });
    expect(await perdure('--db', db, '--schema', 'x', 'list')).toMatchObject({
      code: 2,
      err: expect.stringContaining('a SQLite file has no schemas'),
    });
  });

  it('is not created by a command that reads it', async () => {
    const absent = join(folder, 'absent.db');
    for (const command of ['list', 'stats', 'doctor', 'workers', 'watch', 'prune']) {
      const { code, out, err } = await perdure('--db', absent, command, ...(command === 'prune' ? ['--yes'] : []));
      expect([command, code]).toEqual([command, command === 'doctor' ? 4 : 1]);
      expect(out + err).toContain('there is no such file');
    }
    expect(await perdure('--db', absent, 'migrate', '--check')).toMatchObject({ code: 1 });
    expect(existsSync(absent)).toBe(false);
  });

  it('shows no password if its address is wrong', async () => {
    const addresses = [
      'postgres://ann:s3cret@127.0.0.1:1/shop',
      'postgres://ann:s3cret@[bad/shop',
      'postgres:/ann:s3cret@h/shop',
      'postgresql//ann:s3cret@h/shop',
      'mysql://ann:s3cret@h/shop',
    ];
    const commands = [['list'], ['list', '--json'], ['doctor'], ['nonsense']];
    for (const address of addresses) {
      const all = await Promise.all(commands.map((command) => launch(command, { env: { PERDURE_DB: address } }).ended));
      for (const { code, out, err } of all) {
        expect(code).toBeGreaterThan(0);
        expect(out + err).not.toContain('s3cret');
      }
    }
    const help = await launch(['--help'], { env: { PERDURE_DB: 'postgres://ann:s3cret@h/shop' } }).ended;
    expect(help.code).toBe(0);
    expect(help.out).not.toContain('s3cret');
  });
});

describe.each(SHARED_STORES)('a store of a development version, on $name', (kind) => {
  it('is refused and left as it is', async () => {
    const site = kind.create();
    const flags = storeFlags(site.address);
    const version = makeDevelopmentStore(site.address);
    const list = await perdure(...flags, 'list');
    expect(list).toMatchObject({ code: 1, err: expect.stringContaining(`version ${version}`) });
    expect(list.err).toContain('development version');
    const doctor = await perdure(...flags, 'doctor', '--json');
    expect(doctor.code).toBe(4);
    const advice = expect.stringContaining('choose another path or schema');
    expect(valuesOf(doctor)).toEqual([expect.objectContaining({ subject: 'schema', state: 'problem', advice })]);
    expect(await perdure(...flags, 'migrate', '--check')).toMatchObject({ code: 4 });
    expect(await perdure(...flags, 'migrate')).toMatchObject({
      code: 1,
      err: expect.stringContaining('development version'),
    });
    await site.remove();
  });
});

describe('completion', () => {
  it('has a script for each shell', async () => {
    for (const shell of ['bash', 'zsh', 'fish', 'powershell']) {
      const { code, out } = await perdure('completion', shell);
      expect([shell, code]).toEqual([shell, 0]);
      expect(out).toContain('perdure');
    }
  });

  it('knows commands, flags and states', async () => {
    const suggested = async (...words: string[]): Promise<string[]> =>
      (await perdure('complete', '--', ...words)).out.split('\n').map((line) => line.split('\t')[0] as string);
    expect(await suggested('su')).toContain('suspend');
    expect(await suggested('list', '--pre')).toContain('--prefix');
    expect(await suggested('list', '--status', 'S')).toContain('Suspended');
    expect(await suggested('schedules', 'pa')).toContain('pause');
    expect(await suggested('schedules', 'set', '--catch')).toContain('--catch-up');
    expect(await suggested('schedules', 'set', '--overlap', 'c')).toContain('cancelPrevious');
  });

  it('runs in bash', () => {
    const script = execFileSync(process.execPath, [MAIN, 'completion', 'bash'], { encoding: 'utf8' });
    expect(() => execFileSync('bash', ['-n'], { input: script })).not.toThrow();
  });
});

it('each command is in the guide', async () => {
  const commandsOf = async (...group: string[]): Promise<string[]> => {
    const { out } = await perdure(...group, '--help');
    return [...out.matchAll(/^ {2}([a-z]+)(?: \[options\])?(?: [<[].*?)? {2,}\S/gm)]
      .map(([, name]) => [...group, name].join(' '))
      .filter((name) => !/\bhelp$/.test(name));
  };
  const [commands, ofSchedules] = await Promise.all([commandsOf(), commandsOf('schedules')]);
  expect(commands.length).toBeGreaterThan(15);
  expect(ofSchedules).toHaveLength(9);
  const page = readFileSync(fileURLToPath(new URL('../../docs/command-line.md', import.meta.url)), 'utf8');
  for (const command of [...commands, ...ofSchedules]) expect(page).toContain(`perdure ${command}`);
});
