// Promises in orchestrations: an orchestration waits for futures alone.

import { AST_NODE_TYPES as Node, type TSESTree } from '@typescript-eslint/utils';

import { Code, type FunctionNode, isFunction, nameOf } from '../code.ts';
import { bare, initOf, pathOf, variableOf } from '../paths.ts';
import { createRule } from '../rule.ts';

/** Methods of every promise. */
const CHAIN = new Set(['then', 'catch', 'finally']);

/** The remedies for functions of `Promise`. */
const COMBINATORS: Readonly<Record<string, string>> = {
  'Promise.all': 'ctx.all',
  'Promise.allSettled': 'ctx.allSettled',
  'Promise.any': 'ctx.any',
  'Promise.race': 'ctx.race',
};

export const noPromises = createRule({
  name: 'no-promises',
  meta: {
    type: 'problem',
    docs: {
      description: 'disallow promises that an orchestration yields or awaits',
      recommended: true,
    },
    schema: [],
    messages: {
      yielded: 'An orchestration cannot wait for a promise: do the asynchronous work in an activity, such as ctx.run.',
      awaited: 'An orchestration cannot await a promise: do the asynchronous work in an activity, such as ctx.run.',
      combined: '{{what}} waits for promises, and an orchestration has futures: use yield* {{instead}}.',
    },
  },
  defaultOptions: [],
  create(context) {
    const code = new Code(context);

    function isPromise(node: TSESTree.Node): boolean {
      const kind = code.types.kindOf(node);
      return kind === 'unknown' ? looksLikePromise(node, code) : kind === 'promise';
    }

    function inOrchestration(node: TSESTree.Node): FunctionNode | undefined {
      const fn = code.functionOf(node);
      return fn !== undefined && code.infoOf(fn).place === 'orchestration' ? fn : undefined;
    }

    return {
      YieldExpression({ argument, parent }) {
        if (argument === null || inOrchestration(parent) === undefined || !isPromise(argument)) return;
        context.report({ node: argument, messageId: 'yielded' });
      },
      AwaitExpression(node) {
        const fn = inOrchestration(node);
        if (fn === undefined) return;
        // An orchestration that is itself asynchronous awaits futures.
        if (code.infoOf(fn).isDefined && !isPromise(node.argument)) return;
        context.report({ node, messageId: 'awaited' });
      },
      'ForOfStatement[await=true]'(node: TSESTree.ForOfStatement) {
        if (inOrchestration(node) !== undefined) context.report({ node, messageId: 'awaited' });
      },
      CallExpression(node) {
        const path = pathOf(node.callee, code.source) ?? '';
        const instead = Object.hasOwn(COMBINATORS, path) ? COMBINATORS[path] : undefined;
        const fn = instead === undefined ? undefined : inOrchestration(node);
        // An await or a yield of it is reported above.
        const { parent } = node;
        const isReported = parent.type === Node.YieldExpression || parent.type === Node.AwaitExpression;
        if (fn === undefined || fn.async || isReported) return;
        context.report({ node, messageId: 'combined', data: { what: path, instead: instead as string } });
      },
    };
  },
});

/** True if an expression is a promise by its form. */
function looksLikePromise(node: TSESTree.Node, code: Code): boolean {
  const value = bare(node);
  if (value.type === Node.ImportExpression) return true;
  if (value.type === Node.NewExpression) return pathOf(value.callee, code.source) === 'Promise';
  if (value.type === Node.Identifier) {
    const [definition] = variableOf(value, code.source)?.defs ?? [];
    const init = initOf(definition);
    return init !== undefined && bare(init) !== value && looksLikePromise(init, code);
  }
  if (value.type !== Node.CallExpression) return false;
  const path = pathOf(value.callee, code.source) ?? '';
  if (path === 'fetch' || path.startsWith('Promise.') || path.startsWith('node:timers/promises.')) return true;
  if (path.startsWith('node:fs/promises.') || path.startsWith('node:fs.promises.')) return true;
  const callee = bare(value.callee);
  if (callee.type === Node.MemberExpression && CHAIN.has(nameOf(callee) ?? '')) return true;
  if (isFunction(callee)) return callee.async && !callee.generator;
  return callee.type === Node.Identifier && isAsyncFunction(callee, code);
}

function isAsyncFunction(name: TSESTree.Identifier, code: Code): boolean {
  const [definition] = variableOf(name, code.source)?.defs ?? [];
  const init = initOf(definition);
  const fn = definition?.type === 'FunctionName' ? definition.node : init === undefined ? undefined : bare(init);
  return fn !== undefined && isFunction(fn) && fn.async;
}
