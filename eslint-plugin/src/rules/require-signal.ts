// Activities that start abortable work without the signal of their attempt.

import { AST_NODE_TYPES as Node, type TSESTree } from '@typescript-eslint/utils';

import { Code, type FunctionNode } from '../code.ts';
import { pathOf, variableOf } from '../paths.ts';
import { createRule } from '../rule.ts';

/** The position of the options with a `signal`, by the path of a function. */
const ABORTABLE: Readonly<Record<string, number>> = {
  fetch: 1,
  'undici.fetch': 1,
  'undici.request': 1,
  'undici.stream': 1,
  'node-fetch': 1,
  axios: 1,
  'axios.get': 1,
  'axios.delete': 1,
  'axios.head': 1,
  'axios.post': 2,
  'axios.put': 2,
  'axios.patch': 2,
  got: 1,
  'got.get': 1,
  'got.post': 1,
  ky: 1,
  'ky.get': 1,
  'ky.post': 1,
  'node:timers/promises.setTimeout': 2,
  'node:timers/promises.setImmediate': 1,
  'node:timers/promises.setInterval': 2,
  'node:timers/promises.scheduler.wait': 1,
  'node:events.once': 2,
  'node:events.on': 2,
  'node:child_process.spawn': 2,
  'node:child_process.execFile': 2,
  'node:child_process.exec': 1,
  'node:child_process.fork': 2,
  'node:http.request': 1,
  'node:http.get': 1,
  'node:https.request': 1,
  'node:https.get': 1,
};

export const requireSignal = createRule({
  name: 'require-signal',
  meta: {
    type: 'problem',
    docs: {
      description: 'require activities to pass the signal of their attempt on',
      recommended: true,
    },
    schema: [],
    messages: {
      missing:
        '{{what}} goes on when the attempt times out or is cancelled: pass it the signal of the attempt, ' +
        'as in `{ signal: ctx.signal }`.',
      foreign:
        'The signal of {{what}} does not know when the attempt times out or is cancelled: pass ctx.signal, or ' +
        'AbortSignal.any([ctx.signal, …]).',
    },
  },
  defaultOptions: [],
  create(context) {
    const code = new Code(context);

    /** Returns the outermost function of the activity that a node belongs to. */
    function activityOf(node: TSESTree.Node): FunctionNode | undefined {
      let fn = code.functionOf(node);
      if (fn === undefined || code.infoOf(fn).place !== 'activity') return undefined;
      for (let outer = code.functionOf(fn); outer !== undefined; outer = code.functionOf(outer)) {
        if (code.infoOf(fn).isDefined || code.infoOf(outer).place !== 'activity') break;
        fn = outer;
      }
      return fn;
    }

    /** True if the code of an activity mentions the signal of its context. */
    function usesSignal(activity: FunctionNode): boolean {
      const [parameter] = activity.params;
      if (parameter?.type === Node.ObjectPattern)
        return parameter.properties.some(
          (property) =>
            property.type === Node.RestElement ||
            (property.key.type === Node.Identifier && property.key.name === 'signal'),
        );
      if (parameter?.type !== Node.Identifier) return source.getText(activity).includes('activityContext()');
      const uses = variableOf(parameter, source)?.references ?? [];
      return uses.some(({ identifier }) => {
        const { parent } = identifier as TSESTree.Identifier;
        if (parent.type !== Node.MemberExpression) return true;
        return parent.property.type !== Node.Identifier || parent.property.name === 'signal';
      });
    }

    const { source } = code;
    return {
      CallExpression(node) {
        const path = pathOf(node.callee, source);
        if (path === undefined || !Object.hasOwn(ABORTABLE, path)) return;
        const activity = activityOf(node);
        if (activity === undefined) return;
        const what = `${path.replace(/^node:(?:[a-z_/]+)\./, '')}()`;
        const signal = signalIn(node.arguments, ABORTABLE[path] as number);
        if (signal === 'unknown') return;
        if (signal === 'missing') context.report({ node, messageId: 'missing', data: { what } });
        else if (!usesSignal(activity)) context.report({ node, messageId: 'foreign', data: { what } });
      },
    };
  },
});

/**
 * Looks for a `signal` among the arguments of a call. The options may stand before their position, because arguments
 * before them are optional. Options that are no object in place may have a signal.
 */
function signalIn(args: readonly TSESTree.CallExpressionArgument[], at: number): 'given' | 'missing' | 'unknown' {
  if (args.some((argument) => argument.type === Node.SpreadElement)) return 'unknown';
  const objects = args.filter((argument) => argument.type === Node.ObjectExpression);
  for (const { properties } of objects) {
    if (properties.some((property) => property.type === Node.SpreadElement)) return 'unknown';
    if (properties.some((property) => property.type === Node.Property && isSignal(property.key))) return 'given';
  }
  const options = args[at];
  const isElsewhere = options !== undefined && options.type !== Node.ObjectExpression;
  return isElsewhere ? 'unknown' : 'missing';
}

function isSignal(key: TSESTree.PropertyName): boolean {
  return (
    (key.type === Node.Identifier && key.name === 'signal') || (key.type === Node.Literal && key.value === 'signal')
  );
}
