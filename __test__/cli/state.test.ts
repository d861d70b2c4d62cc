// `perdure state`, and the values in `perdure show`

import type { Runtime } from 'perdure';
import { describe, expect, it } from 'vitest';

import { SHARED_STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { type Ended, launch, perdure, storeFlags, valuesOf } from './perdure.ts';

function register(runtime: Runtime): void {
  runtime.registerOrchestration('empty', function* () {});
  runtime.registerOrchestration('counts', function* (ctx, names: number) {
    for (let n = 1; n <= names; n += 1) ctx.state.set(`name ${String(n).padStart(2, '0')}`, n);
    ctx.state.set('count', { of: 'x'.repeat(500) });
    ctx.state.set('\u001b[2J', '\u001b[2J');
    ctx.setCustomStatus('set');
    yield ctx.waitForEvent('go');
    ctx.state.delete('count');
    yield ctx.waitForEvent('go');
    ctx.state.set('count', new Map([['a', new Date(0)]]));
  });
}

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const on = (...args: string[]): Promise<Ended> => perdure(...storeFlags(store.address), ...args);

  async function started(names = 0): Promise<string> {
    await store.start(register);
    const id = store.id('counts');
    await store.client.startOrchestration(id, 'counts', names);
    await store.client.waitForStatusChange(id, 0, undefined, SOON);
    return id;
  }

  it('prints all values in a line each, or one in full', async () => {
    const id = await started();
    const count = { of: 'x'.repeat(500) };
    const [all, one, json, oneJson] = await Promise.all([
      on('state', id),
      on('state', id, 'count'),
      on('state', id, '--json'),
      on('state', id, 'count', '--json'),
    ]);
    expect(all).toMatchObject({ code: 0, err: '' });
    const [head, escaped, cut, ...rest] = all.out.split('\n');
    expect([head, escaped, rest]).toEqual(['NAME       VERSION  VALUE', "\\u001b[2J        1  '\\x1B[2J'", ['']]);
    expect(cut).toMatch(/^count {12}1 {2}\{ of: 'x+.*…$/);
    expect(one.out).toContain(count.of);
    expect(valuesOf(json)).toEqual([
      { name: '\u001b[2J', value: '\u001b[2J', version: 1 },
      { name: 'count', value: count, version: 1 },
    ]);
    expect(valuesOf(oneJson)).toEqual([{ name: 'count', value: count, version: 1 }]);
  });

  it('follows a value until the instance ends', async () => {
    const id = await started();
    const flags = [...storeFlags(store.address), 'state', id, 'count', '--watch'];
    const [text, json] = [launch(flags), launch([...flags, '--json'])];
    await Promise.all([text.wrote('version 1'), json.wrote('"version":1')]);
    await store.client.raiseEvent(id, 'go');
    await Promise.all([text.wrote('deleted'), json.wrote('"isDeleted":true')]);
    await store.client.raiseEvent(id, 'go');
    const [{ out, ...end }, changes] = await Promise.all([text.ended, json.ended]);
    expect(end).toEqual({ code: 0, err: '' });
    expect(out.split('\n').slice(1)).toEqual([
      'version 2  deleted',
      "version 3  Map(1) { 'a' => 1970-01-01T00:00:00.000Z }",
      '',
    ]);
    expect(valuesOf(changes).slice(1)).toEqual([
      { name: 'count', version: 2, isDeleted: true },
      { name: 'count', value: [['a', '1970-01-01T00:00:00.000Z']], version: 3, isDeleted: false },
    ]);
  });

  it('tells what is missing', async () => {
    const id = await started();
    await store.client.startOrchestration(`${id}/empty`, 'empty');
    await store.client.waitForOrchestration(`${id}/empty`, SOON);
    const [unnamed, absent, watched, shown, nothing, noValue] = await Promise.all([
      on('state', id, '--watch'),
      on('state', 'absent'),
      on('state', 'absent', 'count', '--watch'),
      on('show', 'absent'),
      on('state', `${id}/empty`),
      on('state', id, 'none'),
    ]);
    expect(unnamed).toMatchObject({ code: 2, out: '', err: expect.stringContaining('pass its name after the id') });
    expect(shown).toMatchObject({ code: 3, err: expect.stringContaining("there is no instance 'absent'") });
    expect([absent, watched]).toEqual([shown, shown]);
    expect(nothing).toEqual({ code: 0, out: '', err: 'no values are published\n' });
    expect(noValue).toMatchObject({ code: 4, out: '', err: expect.stringContaining("publishes no value 'none'") });
  });

  it('some values are part of show', async () => {
    const id = await started(30);
    await store.client.startOrchestration(`${id}/empty`, 'empty');
    await store.client.waitForOrchestration(`${id}/empty`, SOON);
    const [shown, json, empty, emptyJson] = await Promise.all([
      on('show', id),
      on('show', id, '--json'),
      on('show', `${id}/empty`),
      on('show', `${id}/empty`, '--json'),
    ]);
    const lines = shown.out.split('\n');
    const at = lines.findIndex((line) => line.startsWith('State'));
    expect(lines.slice(at, at + 22).map((line) => line.slice(15))).toEqual([
      "\\u001b[2J: '\\x1B[2J'",
      expect.stringMatching(/^count: \{ of: 'x+.*…$/),
      ...Array.from({ length: 18 }, (_, n) => `name ${String(n + 1).padStart(2, '0')}: ${n + 1}`),
      'and 12 more values: see perdure state',
      expect.anything(),
    ]);
    expect(valuesOf(json)[0].state).toMatchObject({ 'name 30': { value: 30, version: 1 } });
    expect(empty.out).not.toContain('State');
    expect(valuesOf(emptyJson)[0].state).toEqual({});
  });
});
