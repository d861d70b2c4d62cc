// Calls in orchestrations whose result differs in a replay.

import { AST_NODE_TYPES as Node, type TSESTree } from '@typescript-eslint/utils';

import {
  OF_CRYPTO,
  OF_GLOBAL,
  OF_PROCESS,
  OF_SCHEDULER,
  OF_TEMPORAL,
  OF_TIMERS,
  REPLACED,
} from '../../../js/orchestration/nondeterministic.ts';
import { Code } from '../code.ts';
import { pathOf } from '../paths.ts';
import { createRule } from '../rule.ts';

type Remedies = Readonly<Record<string, string>>;

const ACTIVITY = "an activity: yield* ctx.run('name', async () => …)";
const INPUT = 'the input, or an activity';

/** Functions that the determinism guard refuses, by their paths. */
const REFUSED: Remedies = {
  ...OF_GLOBAL,
  ...within('node:timers.', OF_GLOBAL),
  ...within('crypto.', OF_CRYPTO),
  ...within('node:crypto.', OF_CRYPTO),
  ...within('node:crypto.webcrypto.', OF_CRYPTO),
  ...within('node:timers/promises.', OF_TIMERS),
  ...within('node:timers/promises.scheduler.', OF_SCHEDULER),
  ...within('process.', OF_PROCESS),
  ...within('node:process.', OF_PROCESS),
  'process.hrtime.bigint': OF_PROCESS.hrtime as string,
};

/** Clocks and randomness that the guard replaces, by their paths. */
const GUARDED: Remedies = {
  ...REPLACED,
  'node:crypto.randomUUID': REPLACED['crypto.randomUUID'],
  'node:crypto.webcrypto.randomUUID': REPLACED['crypto.randomUUID'],
  'node:perf_hooks.performance.now': REPLACED['performance.now'],
};

/** Values and calls that no guard finds. */
const UNGUARDED: Remedies = {
  'process.env': INPUT,
  'process.argv': INPUT,
  'process.pid': INPUT,
  'process.cwd': INPUT,
  'process.uptime': 'ctx.now()',
  'process.memoryUsage': ACTIVITY,
  'performance.timeOrigin': 'ctx.now()',
  'import.meta.env': INPUT,
};

/** Modules whose functions do input and output, or read the machine. */
const IO_MODULES = [
  'node:fs',
  'node:http',
  'node:https',
  'node:http2',
  'node:net',
  'node:dns',
  'node:dgram',
  'node:tls',
  'node:os',
  'node:child_process',
  'node:worker_threads',
  'node:readline',
  'undici',
  'axios',
  'got',
  'node-fetch',
];

function within(prefix: string, remedies: Remedies): Remedies {
  return Object.fromEntries(Object.entries(remedies).map(([name, instead]) => [prefix + name, instead]));
}

export const noNondeterminism = createRule({
  name: 'no-nondeterminism',
  meta: {
    type: 'problem',
    docs: {
      description: 'disallow calls in orchestrations whose result differs in a replay',
      recommended: true,
    },
    schema: [
      {
        type: 'object',
        properties: {
          allowGuarded: {
            type: 'boolean',
            description: 'Allow the clocks and the randomness that the determinism guard replaces.',
          },
        },
        additionalProperties: false,
      },
    ],
    messages: {
      refused: '{{what}} in an orchestration throws, because its result would differ in a replay: use {{instead}}.',
      guarded: '{{what}} in an orchestration is repeatable only while the determinism guard is on: use {{instead}}.',
      differs: '{{what}} may differ in a replay of the orchestration: use {{instead}}.',
    },
  },
  defaultOptions: [{ allowGuarded: false }],
  create(context, [{ allowGuarded }]) {
    const code = new Code(context);

    function report(node: TSESTree.Node, messageId: 'refused' | 'guarded' | 'differs', what: string, instead: string) {
      if (code.infoAt(node).place !== 'orchestration') return;
      context.report({ node, messageId, data: { what, instead } });
    }

    function checkCall(node: TSESTree.CallExpression | TSESTree.NewExpression): void {
      const path = pathOf(node.callee, code.source);
      if (path === undefined) return;
      const refused = own(REFUSED, path);
      if (refused !== undefined) return report(node, 'refused', shown(path), refused);
      if (path.startsWith('Temporal.Now.') && path !== 'Temporal.Now.timeZoneId')
        return report(node, 'refused', path, OF_TEMPORAL);
      const guarded = own(GUARDED, path);
      if (guarded !== undefined) {
        // `new Date(ms)` is a time of its own.
        if (path === 'Date' && node.type === Node.NewExpression && node.arguments.length > 0) return;
        const what = node.type === Node.NewExpression ? `new ${path}()` : `${shown(path)}()`;
        if (allowGuarded !== true) report(node, 'guarded', what, guarded);
        return;
      }
      if (
        IO_MODULES.some((module) => path === module || path.startsWith(`${module}.`) || path.startsWith(`${module}/`))
      )
        report(node, 'differs', `${shown(path)}()`, ACTIVITY);
    }

    function checkValue(node: TSESTree.MemberExpression): void {
      const path = pathOf(node, code.source);
      const instead = path === undefined ? undefined : own(UNGUARDED, path.replace(/^node:/, ''));
      if (instead !== undefined) report(node, 'differs', path as string, instead);
    }

    return {
      CallExpression: checkCall,
      NewExpression: checkCall,
      MemberExpression: checkValue,
      Identifier(node) {
        // `import { env } from 'node:process'`, and a function that is passed on: `list.map(Math.random)`.
        const { parent } = node;
        if (parent.type === Node.MemberExpression && parent.property === node && !parent.computed) return;
        if (parent.type === Node.ImportSpecifier || parent.type === Node.Property) return;
        const path = pathOf(node, code.source);
        const instead =
          path?.startsWith('node:process.') === true ? own(UNGUARDED, path.slice('node:'.length)) : undefined;
        if (instead !== undefined) report(node, 'differs', shown(path as string), instead);
      },
    };
  },
});

function own(remedies: Remedies, path: string): string | undefined {
  return Object.hasOwn(remedies, path) ? remedies[path] : undefined;
}

/** Returns a path as code shows it. */
function shown(path: string): string {
  const bareName = path.replace(/^node:(?:timers\/promises|timers|process|perf_hooks)\./, '');
  return bareName.replace(/^node:/, '');
}
