// Each command on a real store, in a process of its own.

import { execFileSync } from 'node:child_process';
import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Client, NonRetryableError, type Runtime } from 'perdure';
import { afterAll, describe, expect, it } from 'vitest';

import { uuidv7 } from '../../js/util/uuid.ts';
import { eventually } from '../support/async.ts';
import { SHARED_STORES, temporaryFolder } from '../support/providers.ts';
import { change } from '../support/rows.ts';
import { SOON, useStore } from '../support/store.ts';
import { CardDeclined, Money, types } from '../support/value-types.mjs';
import { type Ended, launch, MAIN, perdure, storeFlags, valuesOf } from './perdure.ts';

const folder = temporaryFolder();
afterAll(() => rmSync(folder, { recursive: true }));

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const on = (...args: string[]): Promise<Ended> => perdure(...storeFlags(store.address), ...args);

  function register(runtime: Runtime): void {
    runtime.registerActivity('charge', async (_, total: number) => {
      if (total < 0) throw new NonRetryableError(`no ${total}`);
      return { receipt: `r${total}` };
    });
    runtime.registerOrchestration('child', function* (_, n) {
      return n;
    });
    runtime.registerOrchestration('order', function* (ctx, total: number) {
      ctx.setCustomStatus({ step: 'charging' });
      const { receipt } = yield ctx.scheduleActivity('charge', total);
      yield ctx.scheduleSubOrchestration('child', 1, { id: `${ctx.instanceId}/child` });
      ctx.setCustomStatus({ step: 'waiting' });
      const answer = yield ctx.waitForEvent('delivered');
      const more = yield ctx.dequeueEvent('notes');
      return { receipt, answer, more };
    });
  }

  /** Starts an order that waits to be delivered. */
  async function waiting(total = 1): Promise<string> {
    const id = store.id('order');
    await store.client.startOrchestration(id, 'order', total, { tags: { team: id } });
    await store.client.waitForStatusChange(id, 1, undefined, SOON);
    return id;
  }

  it('values of the classes of a program are shown by their data', async () => {
    const provider = await store.open({ types });
    const id = store.id('typed');
    const client = new Client(provider);
    await store.start(
      (runtime) =>
        runtime.registerOrchestration('typed', function* (_ctx, price: Money) {
          throw new CardDeclined('1234', price);
        }),
      {},
      provider,
    );
    await client.startOrchestration(id, 'typed', new Money(5, 'EUR'));
    await client.waitForOrchestration(id, SOON);
    const money = { cents: '5', currency: 'EUR' };
    const [shown] = valuesOf(await on('show', id, '--json'));
    expect(shown).toMatchObject({
      status: 'Failed',
      input: money,
      error: {
        name: 'CardDeclined',
        message: 'card 1234 is declined',
        card: '1234',
        limit: "Money { cents: 5n, currency: 'EUR' }",
      },
    });
    expect((await on('show', id)).out).toContain("Money { cents: 5n, currency: 'EUR' }");
    const [first] = valuesOf(await on('history', id, '--json'));
    expect(first).toMatchObject({ kind: 'ExecutionStarted', payload: money });
    const exported = JSON.parse((await on('export', id)).out);
    expect(exported.events[0].payload).toContain('"type:Money"');
  });

  it('a healthy store has no findings, and a damaged row is named', async () => {
    const id = store.id('checked');
    await store.client.startOrchestration(id, 'nobody registers this');
    expect(await on('check')).toEqual({
      code: 0,
      out: '',
      err: expect.stringMatching(/^no problems in \d+ instances? with \d+ events?\n$/),
    });
    change(store.address, `UPDATE instances SET next_event_id = 9 WHERE id = '${id}'`);
    const [shown, plain] = [await on('check'), await on('check', '--json')];
    expect(shown).toMatchObject({ code: 4, err: expect.stringContaining('1 finding in ') });
    expect(shown.out).toContain(`history  ${id}`);
    expect(plain.code).toBe(4);
    expect(valuesOf({ ...plain, code: 0 })).toEqual([
      { rule: 'history', instanceId: id, detail: 'its next event number is 9, but its last event is 1' },
    ]);
    change(store.address, `UPDATE instances SET next_event_id = 2 WHERE id = '${id}'`);
    expect((await on('check')).code).toBe(0);
  });

  it('a backup is a store, and replaces a file only with --force', async () => {
    const copy = join(folder, `${store.id('copy')}.db`);
    const made = await on('backup', copy);
    if (store.address.kind === 'postgres') {
      expect(made).toMatchObject({ code: 2, err: expect.stringContaining('pg_dump') });
      return;
    }
    expect(made).toMatchObject({ code: 0, out: expect.stringContaining(copy) });
    expect((await perdure('--db', copy, 'check')).code).toBe(0);
    expect(await on('backup', copy)).toMatchObject({ code: 1, err: expect.stringContaining('--force') });
    expect(valuesOf(await on('backup', copy, '--force', '--json'))).toEqual([
      { path: copy, bytes: expect.any(Number) },
    ]);
    const nowhere = await on('backup', join(folder, 'absent', 'copy.db'));
    expect(nowhere).toMatchObject({ code: 1, err: expect.stringContaining('directory does not exist') });
  });

  it('an instance is started, shown, sent messages, and awaited', async () => {
    await store.start(register);
    const id = store.id('order');
    expect(await on('start', 'order', '7', '--id', id, '--tag', 'team=billing', '--tag', 'a=b=c')).toEqual({
      code: 0,
      out: `${id}\n`,
      err: '',
    });
    await store.client.waitForStatusChange(id, 1, undefined, SOON);

    const [shown, plain, tree] = await Promise.all([on('show', id), on('show', id, '--json'), on('tree', id)]);
    for (const text of [id, 'order', 'Running', 'team=billing', 'a=b=c', "step: 'waiting'", "event 'delivered'"])
      expect(shown.out).toContain(text);
    expect(valuesOf(plain)).toEqual([
      expect.objectContaining({
        id,
        name: 'order',
        status: 'Running',
        input: 7,
        customStatus: { step: 'waiting' },
        tags: { team: 'billing', a: 'b=c' },
        messages: [{ kind: 'event', name: 'delivered', fiber: 0 }],
      }),
    ]);
    expect(tree.out.split('\n').map((line) => line.split('  ')[0])).toEqual([id, `└─ ${id}/child`, '']);

    const watching = launch([...storeFlags(store.address), 'watch', id, '--interval', '20ms']);
    await watching.wrote('ChildCompleted');
    expect(await on('raise', id, 'delivered', '{"by":"ann"}')).toMatchObject({ code: 0, out: '' });
    await watching.wrote('EventReceived');
    const note = launch([...storeFlags(store.address), 'enqueue', id, 'notes', '-'], {
      input: '["from the standard input"]',
    });
    expect(await note.ended).toMatchObject({ code: 0 });
    const watched = await watching.ended;
    expect(watched.code).toBe(0);
    expect(watched.out.trimEnd().split('\n').at(-1)).toBe(
      "Completed  { receipt: 'r7', answer: { by: 'ann' }, more: [ 'from the standard input' ] }",
    );

    const history = await on('history', id);
    const kinds = (await store.client.getHistory(id)).map(({ kind: each }) => each);
    expect(
      history.out
        .trimEnd()
        .split('\n')
        .slice(1)
        .map((line) => line.trim().split(/ +/)[2]),
    ).toEqual(kinds);
    const timeline = await on('timeline', id);
    const lines = timeline.out.trimEnd().split('\n');
    expect(lines.map((line) => line.split('  ')[0])).toEqual([
      '✓ order',
      '✓ charge',
      `✓ child ${id}/child`,
      '✓ delivered awaited',
      '✓ notes awaited',
    ]);
    for (const line of lines) expect(line).toMatch(/[▏▎▍▌▋▊▉█]$/);
    expect(valuesOf(await on('timeline', id, '--json')).map(({ kind: each }) => each)).toEqual(
      expect.arrayContaining(['execution', 'activity', 'child', 'wait']),
    );
    const page = await on('history', id, '--from', '2', '--limit', '2', '--json');
    expect(valuesOf(page).map(({ eventId }) => eventId)).toEqual([2, 3]);
    expect(page.err).toContain('--from 4');
    expect((await on('history', id, '--values')).out).toContain("value { by: 'ann' }");
  });

  it('a start with --wait ends with the exit code of the instance', async () => {
    await store.start(register);
    const before = uuidv7();
    const unnamed = await on('start', 'child');
    expect(unnamed.out).toMatch(/^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}\n$/);
    expect(before < unnamed.out && unnamed.out < `${uuidv7()}\n`).toBe(true);
    const [well, failed, late, taken] = await Promise.all([
      on('start', 'child', '3', '--wait', '--json'),
      on('start', 'order', '-1', '--wait', '20s'),
      on('start', 'order', '1', '--id', store.id('late'), '--wait', '1ms'),
      (async () => on('start', 'order', '--id', await waiting()))(),
    ]);
    expect(well.code).toBe(0);
    expect(valuesOf(well)).toEqual([expect.objectContaining({ status: 'Completed', output: 3 })]);
    expect(failed).toMatchObject({ code: 4, err: expect.stringContaining("is Failed: activity 'charge' failed") });
    expect(late).toMatchObject({ code: 5, err: expect.stringContaining('has not ended within 1 ms') });
    expect(taken).toMatchObject({ code: 1, err: expect.stringContaining('exists already') });
  });

  it('lists are filtered, and continue with a cursor', async () => {
    await store.start(register);
    const ids = [await waiting(), await waiting(), await waiting()];
    const lines = (listed: Ended): string[] =>
      listed.out
        .split('\n')
        .slice(1)
        .map((line) => line.split(' ')[0] as string)
        .filter((id) => id !== '');
    const mine = await on('list', '--prefix', ids[1] as string, '--status', 'running,pending');
    expect(lines(mine)).toEqual([ids[1]]);
    expect(lines(await on('list', '--tag', `team=${ids[2]}`))).toEqual([ids[2]]);
    expect(lines(await on('list', '--parent', ids[0] as string))).toEqual([`${ids[0]}/child`]);
    expect(await on('list', '--name', 'nobody')).toEqual({ code: 0, out: '', err: 'no instance matches\n' });
    expect(lines(await on('list', '--after', '1h', '--before', '0ms', '--name', 'order', '--all'))).toEqual(
      expect.arrayContaining(ids),
    );
    const first = await on('list', '--name', 'order', '--limit', '1', '--json');
    expect(valuesOf(first).map(({ id }) => id)).toEqual([ids[2]]);
    const [, cursor] = /--cursor (\S+),/.exec(first.err) as unknown as [string, string];
    expect(
      valuesOf(await on('list', '--name', 'order', '--limit', '2', '--cursor', cursor, '--json')).map(({ id }) => id),
    ).toEqual([ids[1], ids[0]]);
  });

  it('instances are suspended, resumed, cancelled and terminated', async () => {
    const runtime = await store.start(register);
    const [one, two, three] = [await waiting(), await waiting(), await waiting()] as [string, string, string];
    expect(await on('suspend', one, two, '--reason', 'the bank is down')).toEqual({
      code: 0,
      out: '',
      err: `${one}: suspended\n${two}: suspended\n`,
    });
    expect((await on('show', one)).out).toContain('held by client.suspend: the bank is down');
    expect(await on('resume', one)).toMatchObject({ code: 0 });
    expect(await on('cancel', one, '--reason', 'too late')).toMatchObject({ code: 0 });
    expect(await store.client.waitForOrchestration(one, SOON)).toMatchObject({
      status: 'Cancelled',
      error: { message: expect.stringContaining('too late') },
    });
    expect(await on('terminate', two, three, '--reason', 'enough')).toMatchObject({ code: 0 });
    expect(await store.client.getStatus(two)).toMatchObject({
      status: 'Terminated',
      error: { message: expect.stringContaining('enough') },
    });
    expect(await on('watch', three)).toMatchObject({
      code: 4,
      out: expect.stringMatching(/✗ ExecutionTerminated {2}'enough'\n(custom status .*\n)?$/),
      err: `perdure: instance '${three}' is Terminated: enough\n`,
    });
    expect((await on('watch', one)).err).toBe(`perdure: instance '${one}' is Cancelled: too late\n`);
    expect((await on('show', three)).out).toMatch(/^Reason +enough$/m);
    expect((await on('list', '--prefix', three)).out).toMatch(/Terminated .* enough$/m);
    await runtime.shutdown();
    const unknown = await Promise.all(
      ['show', 'tree', 'history', 'watch', 'resume', 'export'].map((command) => on(command, 'nobody')),
    );
    for (const { code, err } of unknown) expect([code, err]).toEqual([3, expect.stringMatching(/nobody/)]);
    expect(await on('raise', 'nobody', 'go', '--json')).toMatchObject({
      code: 3,
      err: expect.stringMatching(/^\{"error":\{"name":"InstanceNotFoundError".*"code":"INSTANCE_NOT_FOUND"\}\}\n$/),
    });
  });

  it('a message starts its receiver if there is none', async () => {
    const [id, other] = [store.id(), store.id()];
    const options = ['--start', 'order', '--input', '7', '--tag', 'team=billing', '--priority', '2'];
    for (const data of ['1', '2'])
      expect(await on('enqueue', id, 'notes', data, ...options)).toMatchObject({ code: 0 });
    expect(await on('raise', other, 'delivered', '3', '--start', 'order')).toMatchObject({ code: 0 });
    expect(await store.client.getStatus(id, { input: true })).toMatchObject({ input: 7, tags: { team: 'billing' } });
    expect((await store.client.facts(id)).unread.messages).toBe(2);
    expect(await on('raise', other, 'delivered', '--input', '7')).toMatchObject({
      code: 2,
      err: expect.stringContaining('need --start'),
    });
  });

  it('histories are exported and replayed', async () => {
    await store.start(register);
    const ids = [await waiting(), await waiting()] as [string, string];
    const directory = join(folder, store.id(kind.name));
    expect(await on('export', ...ids, '--directory', directory)).toMatchObject({
      code: 0,
      err: expect.stringContaining('2 histories in'),
    });
    expect(readdirSync(directory).sort()).toEqual(ids.map((id) => `${id}.1.json`).sort());
    expect(JSON.parse((await on('export', ids[0])).out)).toEqual(
      JSON.parse(JSON.stringify(await store.client.exportHistory(ids[0]))),
    );
    const children = join(directory, 'children');
    expect(await on('export', '--name', 'child', '--limit', '1', '--directory', children)).toMatchObject({
      code: 0,
      err: expect.stringContaining('1 history in'),
    });
    expect(readdirSync(children)).toEqual([expect.stringMatching(/^order-\d+%2Fchild\.1\.json$/)]);

    const index = join(import.meta.dirname, '../../dist/index.js');
    const code = (activity: string): string => {
      const path = join(folder, `${activity}.mjs`);
      writeFileSync(
        path,
        `import { defineOrchestration } from ${JSON.stringify(pathToFileURL(index).href)};
         export const all = [
           defineOrchestration('child', function* (_, n) { return n; }),
           defineOrchestration('order', function* (ctx, total) {
             yield ctx.scheduleActivity('${activity}', total);
             yield ctx.scheduleSubOrchestration('child', 1, { id: ctx.instanceId + '/child' });
             yield ctx.waitForEvent('delivered');
           }),
         ];`,
      );
      return path;
    };
    const fits = await perdure('replay', directory, code('charge'), '--json');
    expect(fits.code).toBe(0);
    expect(valuesOf(fits)).toHaveLength(3);
    expect(valuesOf(fits)).toContainEqual(
      expect.objectContaining({ instanceId: ids[0], name: 'order', outcome: 'waiting' }),
    );
    const differs = await perdure('replay', directory, code('bill'));
    expect(differs).toMatchObject({ code: 4, err: expect.stringContaining('2 histories do not match') });
    for (const text of ["recorded:  activity 'charge'", "attempted: activity 'bill'", `${ids[1]}.1.json`])
      expect(differs.out).toContain(text);
    expect(await perdure('replay', directory, join(folder, 'absent.mjs'))).toMatchObject({
      code: 2,
      err: expect.stringContaining('absent.mjs cannot be loaded'),
    });
  });

  it('ended instances are deleted after a confirmation', async () => {
    await store.start(register);
    const ids = await Promise.all(
      Array.from({ length: 3 }, async () => {
        const id = store.id('pruned');
        await store.client.startOrchestration(id, 'child');
        await store.client.waitForOrchestration(id, SOON);
        return id;
      }),
    );
    const left = async (): Promise<number> =>
      (await store.client.listInstances({ idPrefix: 'pruned' }).page()).items.length;
    const which = ['prune', '--prefix', 'pruned', '--status', 'completed', '--completed-before', '0ms'];
    expect(await on(...which)).toMatchObject({ code: 2, err: expect.stringContaining('--yes') });
    expect(await on(...which, '--dry-run')).toMatchObject({ code: 0, out: '3 instances would be deleted\n' });
    expect(await left()).toBe(3);
    expect(await on('delete', ids[0] as string, '--yes')).toMatchObject({ code: 0 });
    expect(await on(...which, '--yes', '--limit', '1', '--json')).toMatchObject({ code: 0, out: '{"deleted":1}\n' });
    expect(await left()).toBe(1);
    expect(await on(...which, '--yes')).toMatchObject({ code: 0, out: '1 instance deleted\n' });
    expect(await on('prune', '--executions', '1', '--limit', '1', '--yes')).toMatchObject({ code: 2 });
    expect(await on('prune', '--executions', '1', '--yes')).toMatchObject({
      code: 0,
      out: '0 histories of former executions deleted\n',
    });
  });

  it('the doctor finds no problem, and then a suspended instance', async () => {
    const findings = async (): Promise<any[]> => valuesOf(await on('doctor', '--json'));
    const sick = store.id('sick');
    await store.start(
      (runtime) =>
        runtime.registerOrchestration('sick', function* (ctx) {
          yield ctx.waitForEvent('go');
        }),
      { workerName: 'ada' },
    );
    await store.client.startOrchestration(sick, 'sick');
    await store.settled();
    const [worker] = valuesOf(await on('workers', '--json'));
    expect(worker).toMatchObject({ name: 'ada', pid: process.pid, isAlive: true });
    expect(worker.about).toMatchObject({
      hostName: hostname(),
      nodeVersion: process.versions.node,
      lanes: [{ busyShare: expect.any(Number) }],
    });
    const shown = (await on('workers')).out;
    expect(shown).toContain('ada');
    expect(shown).toContain(hostname());
    expect(shown).toMatch(/1 lane, \d+ % busy/);
    const { instances, messages, tasks } = await store.client.stats();
    expect(valuesOf(await on('stats', '--json'))).toEqual([
      expect.objectContaining({ instances, messages, tasks, workers: 1 }),
    ]);
    expect((await on('stats')).out).toMatch(/Workers +1 worker/);
    const well = await findings();
    expect(well.map(({ subject }) => subject)).toEqual(
      expect.arrayContaining(['store', 'durability', 'clock', 'workers', 'overdue', 'suspended']),
    );
    expect(well.find(({ subject }) => subject === 'workers')).toMatchObject({
      state: 'ok',
      detail: expect.stringContaining('ada'),
    });
    await store.client.suspend(sick, 'a look');
    const held = await findings();
    expect(held.find(({ subject }) => subject === 'suspended')).toMatchObject({
      state: 'warning',
      detail: expect.stringContaining('a look'),
      advice: expect.stringContaining('resume'),
    });
    await store.client.terminateInstance(sick);
  });

  it('the doctor names overdue instances', async () => {
    const [id, name] = [store.id('left'), store.id('unregistered')];
    await store.client.startOrchestration(id, name, null, { version: '1.2.0' });
    const overdue = async () => (await store.client.overdue()).filter((some) => some.name === name);
    await eventually(20_000, 'it is overdue', async () => (await overdue()).length > 0);
    expect(await overdue()).toEqual([
      { name, version: '1.2.0', instances: 1, oldestMs: expect.any(Number), oldestId: id },
    ]);
    const alone = await on('doctor');
    expect(alone.code).toBe(4);
    expect(alone.out).toMatch(
      new RegExp(
        `✗ overdue {2}1 instance of ${name} 1\\.2\\.0 is due and not taken by a worker; ` +
          `the oldest, ${id}, for 1\\d(\\.\\d+)?s\n +→ start a runtime`,
      ),
    );
    await store.start((runtime) => runtime.registerOrchestration(name, function* () {}, { version: '1.3.0' }));
    expect((await on('doctor')).out).toContain('no started runtime has registered this version');
    await store.client.terminateInstance(id);
    expect(await overdue()).toEqual([]);
  });

  it('the doctor reports code that does not match', async () => {
    const [id, name] = [store.id(), store.id('changed')];
    const old = await store.start((runtime) =>
      runtime.registerOrchestration(name, function* (ctx) {
        yield ctx.waitForEvent('go');
        yield ctx.scheduleTimer(1);
      }),
    );
    await store.client.startOrchestration(id, name);
    await old.shutdown();
    await store.start((runtime) =>
      runtime.registerOrchestration(name, function* (ctx) {
        yield ctx.scheduleActivity('other');
      }),
    );
    await store.client.raiseEvent(id, 'go');
    await store.suspended(id);
    store.errors.splice(0);
    const doctor = await on('doctor');
    expect(doctor.code).toBe(4);
    expect(doctor.out).toMatch(/✗ suspended {2}1 instance of changed-\d+ 1\.0\.0: .*no longer fits/);
    expect(doctor.err).toMatch(/problem/);
    expect((await on('show', id)).out).toContain("attempted: activity 'other' is scheduled");
    await store.client.terminateInstance(id);
  });

  it('values of users cannot control the terminal', async () => {
    const evil = '\u001b[2J\u0007\u202eevil';
    const id = store.id(`id${evil}`);
    await store.start(
      (runtime) =>
        runtime.registerOrchestration(`o${evil}`, function* (ctx, input) {
          ctx.traceInfo(evil, { [evil]: evil });
          ctx.setCustomStatus(input);
          throw new RangeError(`error${evil}`);
        }),
      { keepLogs: {} },
    );
    await store.client.startOrchestration(id, `o${evil}`, { [evil]: evil }, { tags: { [evil]: evil } });
    await store.client.waitForOrchestration(id, SOON);
    const commands = [
      ['list', '--prefix', 'id'],
      ['list', '--json'],
      ['show', id],
      ['tree', id],
      ['timeline', id],
      ['logs', id],
      ['history', id],
      ['export', id],
      ['history', id, '--values'],
      ['watch', id],
      ['delete', id, '--yes'],
    ];
    for (const command of commands) {
      const { out, err } = await on(...command);
      expect(out + err, command.join(' ')).toContain('evil');
      expect((out + err).replaceAll('\n', ''), command.join(' ')).not.toMatch(/[\u0000-\u001f\u202e]/);
    }
  });
});

it('a watch of the whole store continues until it is stopped', async () => {
  const db = join(folder, 'watched.db');
  await perdure('--db', db, 'migrate');
  const watching = launch(['--db', db, 'watch', '--interval', '10ms', '--json']);
  await watching.wrote('\n{');
  await perdure('--db', db, 'start', 'nobody registers this');
  await watching.wrote('"Pending":1');
  watching.kill();
  expect((await watching.ended).code).toBeNull();
});

it('the dashboard is served until it is stopped', async () => {
  const db = join(folder, 'dashboard.db');
  await perdure('--db', db, 'migrate');
  await perdure('--db', db, 'start', 'nobody registers this', '--id', 'a');
  const local = launch(['--db', db, 'dashboard', '--port', '0', '--read-only', '--no-token', '--json']);
  await local.wrote('}');
  const { url } = JSON.parse(await local.line()) as { url: string };
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/$/);
  const page = await fetch(url);
  expect([page.status, await page.text()]).toEqual([200, expect.stringContaining('<title>')]);
  local.kill();
  expect(await local.ended).toMatchObject({ code: 0, err: expect.stringContaining('actions are disabled') });

  const shop = join(folder, 'shop.mjs');
  const built = JSON.stringify(new URL('../../dist/index.js', import.meta.url).href);
  const handlers = '{ *add() {} }';
  writeFileSync(
    shop,
    `import { defineEntity } from ${built};
    export const cart = defineEntity('cart', { initial: () => 0, handlers: ${handlers}, reads: { sum: (n) => n } });`,
  );
  await perdure('--db', db, 'start', 'cart', '--id', 'cart/ann');
  const named = launch(['--db', db, 'dashboard', '--port', '0', '--no-token', '-m', shop]);
  await named.wrote('\n');
  const answer = await fetch(`${await named.line()}api/v1/instance?id=cart/ann`);
  expect(await answer.json()).toMatchObject({ entity: { handlers: ['add'], reads: ['sum'] } });
  named.kill();
  await named.ended;
  const plain = `import { defineOrchestration } from ${built};\n`;
  writeFileSync(shop, `${plain}export const a = defineOrchestration('a', function* () {});`);
  expect(await perdure('--db', db, 'dashboard', '--port', '0', '-m', shop)).toMatchObject({
    code: 2,
    err: expect.stringContaining('the modules export no entity: export what defineEntity returned'),
  });

  // A token is made for every listening address: a proxy on this machine looks like this machine.
  for (const host of ['0.0.0.0', '127.0.0.1']) {
    const open = launch(['--db', db, 'dashboard', '--host', host, '--port', '0']);
    await open.wrote('\n');
    const [, port, token] = /:(\d+)\/\?token=([\w-]{32})$/.exec(await open.line()) as unknown as [
      string,
      string,
      string,
    ];
    const at = `http://127.0.0.1:${port}/api/v1/about`;
    expect((await fetch(at)).status).toBe(401);
    expect((await fetch(at, { headers: { authorization: `Bearer ${token}` } })).status).not.toBe(401);
    open.kill();
    expect((await open.ended).code).toBe(0);
  }
});

it('a command ends silently when its output is closed', async () => {
  const db = join(folder, 'long.db');
  await perdure('--db', db, 'migrate');
  const input = JSON.stringify('x'.repeat(1_000_000));
  expect(
    await launch(['--db', db, 'start', 'nobody registers this', '-', '--id', 'long'], { input }).ended,
  ).toMatchObject({ code: 0 });
  const text = execFileSync('sh', ['-c', `"${process.execPath}" "${MAIN}" --db "${db}" export long 2>&1 | head -c 5`], {
    encoding: 'utf8',
  });
  expect(text).toBe('{\n  "');
});
