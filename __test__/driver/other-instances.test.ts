import { describe, expect, test } from 'vitest';

import {
  CHILD_CANCELLED,
  CHILD_TERMINATED,
  CHILD_THREW,
  INSTANCE_ENDED,
  INSTANCE_EXISTS,
  INSTANCE_NOT_FOUND,
  MAILBOX_FULL,
  QUEUE_NOT_FOUND,
} from '../../js/driver/delivery.ts';
import {
  CancelledError,
  InstanceExistsError,
  InstanceNotFoundError,
  type LimitError,
  PayloadError,
  QueueNotFoundError,
  RuntimeStateError,
  SubOrchestrationError,
} from '../../js/errors/errors.ts';
import { defineOrchestration, type OrchestrationGenerator } from '../../js/orchestration/definition.ts';
import { toErrorPayload } from '../../js/values/payload.ts';
import { NO_TYPES } from '../../js/values/value-types.ts';
import { outputOf, Script } from './scripted-engine.ts';

const UUID = '00000000-0000-4000-8000-000000000000';

describe('children', () => {
  test('are commands with the id, version and options that were asked for, or an id of their own', () => {
    const payment = defineOrchestration(
      'payment',
      function* (_, total: number) {
        return `paid ${total}`;
      },
      { version: '2.0.0' },
    );
    const script = new Script(function* (ctx) {
      ctx.scheduleSubOrchestration(
        'pick',
        { item: 1 },
        { id: 'pick-1', version: '1.1.0', tags: { a: 'b' }, priority: 7 },
      );
      ctx.scheduleSubOrchestration('pick');
      ctx.callOrchestration(payment, 12);
      return yield* ctx.callOrchestration(payment, 13, { id: 'p', version: '1.0.0' });
    });
    script.turn();
    expect(script.engine.commands).toEqual([
      'child pick pick-1 1.1.0 {"item":1} {"a":"b"} 7',
      `child pick i/${UUID}`,
      `child payment i/${UUID.replace(/0$/, '1')} 2.0.0 12`,
      'child payment p 1.0.0 13',
    ]);
    script.engine.succeed(5, 'paid 13');
    expect(script.output()).toBe('paid 13');
  });

  test('below an id that is too long have one that fits', () => {
    const script = new Script(function* (ctx) {
      Object.defineProperty(ctx, 'instanceId', { value: 'x'.repeat(220) });
      yield ctx.scheduleSubOrchestration('pick');
    });
    script.turn();
    expect(script.engine.commands).toEqual([`child pick ${UUID}`]);
  });

  test.each([
    [
      CHILD_THREW,
      toErrorPayload(new RangeError('too many'), NO_TYPES),
      RangeError,
      "child 'c' (pick) failed: too many",
    ],
    [
      CHILD_CANCELLED,
      toErrorPayload(new CancelledError('enough'), NO_TYPES),
      CancelledError,
      "child 'c' (pick) was cancelled: enough",
    ],
    [CHILD_TERMINATED, '"now"', CancelledError, "child 'c' (pick) ended: terminated: now"],
    [CHILD_TERMINATED, null, CancelledError, "child 'c' (pick) ended: instance 'c' was terminated"],
  ])('that end without completing (%i, %s) fail with their error or reason', (detail, value, cause, message) => {
    let line = '';
    const script = new Script(function* (ctx) {
      const child = ctx.scheduleSubOrchestration('pick', 1, { id: 'c' });
      line = new Error().stack?.split('\n')[1]?.replace(/:(\d+):\d+\)?$/, (_, n: string) => `:${Number(n) - 1}:`) ?? '';
      try {
        yield child;
      } catch (error) {
        expect(error).toBeInstanceOf(SubOrchestrationError);
        expect(error).toMatchObject({ message, code: 'SUB_ORCHESTRATION', orchestrationName: 'pick', instanceId: 'c' });
        expect((error as Error).cause).toBeInstanceOf(cause);
        return (error as Error).stack;
      }
    });
    script.turn();
    script.engine.childFails(2, detail, value);
    expect((script.output() as string).split('\n').at(-1)).toContain(line);
  });

  test.each([
    [9_999, true],
    [10_000, false],
  ])('fail beside %i open operations with the line that asked for them: %s', (open, isShown) => {
    const script = new Script(function* (ctx) {
      for (let n = 0; n < open; n += 1) ctx.scheduleTimer('1h');
      try {
        yield ctx.scheduleSubOrchestration('pick', 1, { id: 'c' });
      } catch (error) {
        return (error as Error).stack;
      }
    });
    script.turn();
    script.engine.refuse(open + 2, INSTANCE_EXISTS);
    expect((script.output() as string).includes('other-instances.test.ts')).toBe(isShown);
  });

  test('fail if the id is in use', () => {
    const script = new Script(function* (ctx) {
      try {
        yield ctx.scheduleSubOrchestration('pick', 1, { id: 'c' });
      } catch (error) {
        expect(error).toBeInstanceOf(SubOrchestrationError);
        expect((error as Error).cause).toBeInstanceOf(InstanceExistsError);
        return (error as Error).message;
      }
    });
    script.turn();
    script.engine.refuse(2, INSTANCE_EXISTS);
    expect(script.output()).toBe("child 'c' (pick) could not be started: an instance with the id 'c' exists already");
  });

  test('are given up like every other operation', () => {
    const script = new Script(function* (ctx) {
      const child = ctx.scheduleSubOrchestration('pick', 1, { id: 'c' });
      child.cancel('changed my mind');
      try {
        yield child;
      } catch (error) {
        return (error as Error).message;
      }
    });
    expect(script.output()).toBe('cancelled: changed my mind');
    expect(script.engine.commands).toEqual(['child pick c 1', 'cancel 2']);
  });

  test('are given up when the instance is cancelled', () => {
    const script = new Script(function* (ctx) {
      yield ctx.all([
        ctx.scheduleSubOrchestration('pick', 1, { id: 'a' }),
        ctx.scheduleSubOrchestration('pick', 2, { id: 'b' }),
      ]);
    });
    script.turn();
    script.engine.cancel();
    expect(script.turn()).toBe('cancelled');
    expect(script.engine.commands.slice(2)).toEqual(['cancel 2', 'cancel 3']);
  });

  test('keep an instance that waits for one from being a deadlock', () => {
    const script = new Script(function* (ctx) {
      return yield ctx.spawn(() => ctx.scheduleSubOrchestration('pick') as unknown as OrchestrationGenerator);
    });
    script.turn();
    expect(script.turn()).not.toBe('completed');
  });
});

describe('starts in a queue, or later', () => {
  test('are commands with the queue, the key and the start time', () => {
    const definition = defineOrchestration('job', function* () {});
    const at = new Date(1_900_000_000_000);
    const script = new Script(function* (ctx) {
      ctx.scheduleSubOrchestration('job', 1, { id: 'a', queue: 'mails', key: 'ada', delay: '1.5s' });
      ctx.callOrchestration(definition, undefined, { id: 'b', startAt: at });
      ctx.startOrchestration('job', 'c', 1, { queue: 'mails', priority: 5 });
      ctx.start(definition, undefined, { id: 'd', startAt: '2030-03-17T17:46:40Z', queue: 'mails' });
      ctx.raiseEvent('e', 'go', 2, { start: { name: 'job', queue: 'mails', key: 'bob', delay: 10 } });
      ctx.startOrchestration('job', 'f', 1, { delay: 0 });
      return yield* ctx.scheduleSubOrchestration('job', 1, { id: 'g', delay: '0s', queue: 'mails' });
    });
    script.turn();
    expect(script.engine.commands).toEqual([
      'child job a 1 {"queue":"mails","key":"ada","delayMs":1500}',
      'child job b 1.0.0 {"startAtMs":1900000000000}',
      'start job c 1 5 {"queue":"mails"}',
      'start job d 1.0.0 {"queue":"mails","startAtMs":1900000000000}',
      'start job e {"queue":"mails","key":"bob","delayMs":10}',
      'send e ego 2',
      'start job f 1',
      'child job g 1 {"queue":"mails"}',
    ]);
  });

  test('fail by the name of a queue that there is not', () => {
    const script = new Script(function* (ctx) {
      const errors: Error[] = [];
      const child = ctx.scheduleSubOrchestration('job', 1, { queue: 'mials' });
      const start = ctx.startOrchestration('job', 'c', 1, { queue: 'mials' });
      const sent = ctx.raiseEvent('e', 'go', 2, { start: { name: 'job', queue: 'mials' } });
      for (const future of [child, start, sent]) {
        try {
          yield future;
        } catch (error) {
          errors.push(error as Error);
        }
      }
      expect(errors[0]).toBeInstanceOf(SubOrchestrationError);
      return [(errors[0] as Error).cause, errors[1], errors[2]].map((error) => {
        expect(error).toBeInstanceOf(QueueNotFoundError);
        const { message, code, queue } = error as QueueNotFoundError;
        return [message, code, queue];
      });
    });
    const message = "there is no queue 'mials'; set its limits first, with client.queues.set";
    script.turn();
    script.engine.refuse(2, QUEUE_NOT_FOUND);
    script.turn();
    script.engine.refuse(3, QUEUE_NOT_FOUND);
    script.turn();
    script.engine.refuse(5, INSTANCE_NOT_FOUND);
    expect(script.output()).toEqual(Array.from({ length: 3 }, () => [message, 'QUEUE_NOT_FOUND', 'mials']));
  });

  test('are refused before anything is recorded if their options do not fit together', () => {
    const script = new Script(function* (ctx) {
      const wrong: [object, string][] = [
        [{ key: 'ada' }, "orchestration 'job': the option key needs the option queue"],
        [{ delay: '1s', startAt: new Date() }, 'takes one of the options delay and startAt, not both'],
        [{ delay: 'soon' }, 'delay must be a duration'],
        [{ delay: -1 }, 'delay must be a duration'],
        [{ startAt: new Date(Number.NaN) }, 'startAt must be a time'],
        [{ timeout: 0 }, 'timeout must be at least 1 ms, got 0'],
        [{ gracePeriod: '1s' }, 'the option gracePeriod needs the option timeout'],
        [{ startAt: 5 }, 'startAt must be a time'],
        [{ queue: '' }, 'queue: the value must not be empty'],
        [{ queue: 'q', key: 'x'.repeat(1_000_000) }, 'key: the value must have at most 256 characters, got 1000000'],
      ];
      for (const [options, message] of wrong) {
        expect(() => ctx.scheduleSubOrchestration('job', 1, options)).toThrow(message);
        expect(() => ctx.startOrchestration('job', 'c', 1, options)).toThrow(message);
        expect(() => ctx.raiseEvent('c', 'go', 1, { start: { name: 'job', ...options } })).toThrow(message);
      }
      return 'unchanged';
    });
    expect(script.output()).toBe('unchanged');
    expect(script.engine.commands).toEqual([]);
  });

  test('of a child that is retried have its queue each time, and its delay the first time', () => {
    const script = new Script(function* (ctx) {
      const retry = { maxAttempts: 2, initialInterval: 10 };
      return yield* ctx.scheduleSubOrchestration('job', 1, { id: 'c', queue: 'mails', key: 'ada', delay: 5, retry });
    });
    script.turn();
    script.engine.childFails(2, CHILD_THREW, toErrorPayload(new Error('no'), NO_TYPES));
    script.turn();
    script.engine.succeed(3);
    script.turn();
    expect(script.engine.commands).toEqual([
      'child job c 1 {"queue":"mails","key":"ada","delayMs":5}',
      expect.stringMatching(/^timer /),
      'child job c~2 1 {"queue":"mails","key":"ada"}',
    ]);
  });
});

describe('messages to other instances', () => {
  test('are commands at once, and are confirmed only to a fiber that waits', () => {
    const script = new Script(function* (ctx) {
      ctx.raiseEvent('other', 'go', { a: 1 });
      ctx.enqueueEvent('other', 'jobs');
      const started = ctx.startOrchestration('audit', 'audit-1', 'x', { tags: { a: 'b' } });
      yield ctx.scheduleActivity('work');
      return yield* started;
    });
    script.turn();
    expect(script.engine.commands).toEqual([
      'send other ego {"a":1}',
      'send other qjobs',
      'start audit audit-1 "x" {"a":"b"}',
      'activity work',
    ]);
    expect(script.engine.lastAwaited.timers).toBeNull();
    script.engine.succeed(5);
    script.engine.due(4);
    expect(script.output()).toBe('audit-1');
    expect(script.engine.lastAwaited.timers).toEqual([4]);
  });

  test.each([
    [INSTANCE_EXISTS, InstanceExistsError, 'INSTANCE_EXISTS'],
    [INSTANCE_NOT_FOUND, InstanceNotFoundError, 'INSTANCE_NOT_FOUND'],
    [INSTANCE_ENDED, RuntimeStateError, 'RUNTIME_STATE'],
  ])('can be refused (%i)', (why, type, code) => {
    const script = new Script(function* (ctx) {
      const sent = ctx.raiseEvent('other', 'go');
      yield ctx.scheduleActivity('work');
      try {
        yield sent;
      } catch (error) {
        expect(error).toBeInstanceOf(type);
        return [(error as { code?: string }).code, (error as Error).stack?.includes('other-instances.test.ts')];
      }
    });
    script.turn();
    script.engine.refuse(2, why);
    script.turn();
    script.engine.succeed(3);
    expect(script.output()).toEqual([code, true]);
  });

  test('can be refused because too many wait', () => {
    const script = new Script(function* (ctx) {
      try {
        yield ctx.raiseEvent('other', 'go');
      } catch (error) {
        return [(error as LimitError).code, (error as LimitError).limit, (error as LimitError).max];
      }
    });
    script.turn();
    script.engine.refuse(2, MAILBOX_FULL, '7');
    expect(script.output()).toEqual(['LIMIT', 'mailboxMessages', 7]);
  });

  test('do not keep an instance that waits for something else from being a deadlock', () => {
    const script = new Script(function* (ctx) {
      ctx.raiseEvent('other', 'go');
      const channel = ctx.channel();
      yield channel.receive();
    });
    expect(script.turn()).toBe('failed');
    expect(script.engine.end?.payload).toContain('deadlock');
  });

  test('are checked before anything is recorded', () => {
    const commands = (fn: (ctx: Parameters<ConstructorParameters<typeof Script>[0]>[0]) => unknown): unknown => {
      const script = new Script(function* (ctx) {
        fn(ctx);
        return 'unchanged';
      });
      script.output();
      return script.engine.commands;
    };
    expect(
      commands((ctx) => {
        expect(() => ctx.raiseEvent('', 'go')).toThrow(TypeError);
        expect(() => ctx.raiseEvent('a', 'go\0')).toThrow(TypeError);
        expect(() => ctx.enqueueEvent('a', 'x'.repeat(257))).toThrow(TypeError);
        expect(() => ctx.raiseEvent('a', 'go', () => {})).toThrow(PayloadError);
        expect(() => ctx.startOrchestration('a', '\ud800')).toThrow(TypeError);
        expect(() => ctx.startOrchestration('a', 'b', 1, { idd: 'x' } as object)).toThrow('unknown option `idd`');
        expect(() => ctx.startOrchestration('a', 'b', Symbol('x'))).toThrow(PayloadError);
        expect(() => ctx.scheduleSubOrchestration('a', 1, { versoin: '1' } as object)).toThrow(
          'did you mean `version`?',
        );
        expect(() => ctx.scheduleSubOrchestration('a', 1, { priority: 0.5 })).toThrow(TypeError);
        expect(() => ctx.scheduleSubOrchestration('a', 1, { id: '' })).toThrow(TypeError);
        expect(() => ctx.callOrchestration('pick' as never, 1 as never)).toThrow(
          'a definition that defineOrchestration returned',
        );
        expect(() => ctx.call(defineOrchestration('pick', function* () {}) as never, 1 as never)).toThrow(
          "not the orchestration 'pick', which ctx.callOrchestration takes",
        );
      }),
    ).toEqual([]);
  });

  test('cannot be sent from outside of their orchestration', () => {
    let send = (): unknown => undefined;
    outputOf(function* (ctx) {
      send = () => ctx.raiseEvent('other', 'go');
    });
    expect(() => send()).toThrow('ctx.raiseEvent was called while its orchestration was not running');
  });
});
