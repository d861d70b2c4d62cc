// The use that code makes of the value of an expression.

import { AST_NODE_TYPES as Node, type TSESTree } from '@typescript-eslint/utils';

import { type Code, isFunction, nameOf, outermost } from './code.ts';
import { COMBINATORS, FUTURE_MEMBERS, FUTURE_METHODS, IN_MEMORY } from './facts.ts';
import { pathOf } from './paths.ts';

/** A use that a future cannot be meant for. */
export type Misuse = 'dropped' | 'condition' | 'text' | 'number' | 'list' | 'parts' | 'stored' | 'output' | 'printed';

const ARITHMETIC = new Set(['+', '-', '*', '/', '%', '**', '<', '<=', '>', '>=', '&', '|', '^', '<<', '>>', '>>>']);

/** Global functions that convert their argument. */
const CONVERSIONS: Readonly<Record<string, Misuse>> = {
  String: 'text',
  'JSON.stringify': 'text',
  Number: 'number',
  parseInt: 'number',
  parseFloat: 'number',
  Boolean: 'condition',
  'Array.from': 'list',
};

/** Methods of lists, each with the use that it makes of what its function returns. */
const CALLBACKS: Readonly<Record<string, Misuse>> = {
  forEach: 'dropped',
  filter: 'condition',
  some: 'condition',
  every: 'condition',
  find: 'condition',
  findIndex: 'condition',
  findLast: 'condition',
};

/** Returns the misuse of an expression if it is a future; `undefined` if the use is one of a future. */
export function misuseOf(node: TSESTree.Node, code: Code): Misuse | undefined {
  const value = outermost(node);
  const { parent } = value;
  switch (parent?.type) {
    case Node.ExpressionStatement:
      return 'dropped';
    case Node.TemplateLiteral:
      return parent.parent.type === Node.TaggedTemplateExpression ? undefined : 'text';
    case Node.BinaryExpression:
      return ARITHMETIC.has(parent.operator) ? 'number' : undefined;
    case Node.UnaryExpression:
      return ofUnary(parent, code);
    case Node.IfStatement:
    case Node.WhileStatement:
    case Node.DoWhileStatement:
    case Node.ForStatement:
      return parent.test === value ? 'condition' : 'dropped';
    case Node.SwitchStatement:
      return 'condition';
    case Node.ConditionalExpression:
      return parent.test === value ? 'condition' : misuseOf(parent, code);
    case Node.LogicalExpression:
      return parent.left === value ? 'condition' : misuseOf(parent, code);
    case Node.SequenceExpression:
      return parent.expressions.at(-1) === value ? misuseOf(parent, code) : 'dropped';
    case Node.MemberExpression:
      return ofMember(parent, value);
    case Node.VariableDeclarator:
      if (parent.id.type === Node.ArrayPattern) return 'list';
      return parent.id.type === Node.ObjectPattern ? 'parts' : undefined;
    case Node.SpreadElement:
      return 'list';
    case Node.ForOfStatement:
      return parent.right === value ? 'list' : undefined;
    default:
      return ofPart(value, code);
  }
}

function ofUnary(parent: TSESTree.UnaryExpression, code: Code): Misuse | undefined {
  if (parent.operator === '!') return 'condition';
  if (parent.operator === 'void') return misuseOf(parent, code) === 'dropped' ? 'dropped' : undefined;
  return ['+', '-', '~'].includes(parent.operator) ? 'number' : undefined;
}

function ofMember(parent: TSESTree.MemberExpression, value: TSESTree.Node): Misuse | undefined {
  if (parent.object !== value) return parent.computed ? 'text' : undefined;
  const name = nameOf(parent);
  if (name === 'toString') return 'text';
  return name === undefined || FUTURE_MEMBERS.has(name) ? undefined : 'parts';
}

/** Returns the misuse of a value that is returned or passed on, maybe in an object or a list. */
function ofPart(value: TSESTree.Node, code: Code): Misuse | undefined {
  let part = value;
  for (;;) {
    const { parent } = part;
    if (parent === undefined || parent === null) return undefined;
    if (parent.type === Node.Property && parent.value === part) part = parent.parent;
    else if (parent.type === Node.ArrayExpression || outermost(part) !== part) part = parent;
    else break;
  }
  const { parent } = part;
  if (parent?.type === Node.ReturnStatement) return ofReturned(code, code.functionOf(parent), part === value);
  if (parent !== undefined && isFunction(parent) && parent.body === part)
    return ofReturned(code, parent, part === value);
  return parent?.type === Node.CallExpression && parent.callee !== part ? ofArgument(parent, code) : undefined;
}

/** @param isWhole - true if the value itself is returned, and not an object or a list that holds it */
function ofReturned(code: Code, fn: TSESTree.Node | undefined, isWhole: boolean): Misuse | undefined {
  if (fn === undefined || !isFunction(fn)) return undefined;
  const { place, isDefined } = code.infoOf(fn);
  if (isDefined) return place === 'orchestration' ? 'output' : 'stored';
  const call = fn.parent;
  if (call.type !== Node.CallExpression || call.arguments[0] !== fn || !isWhole) return undefined;
  const name = nameOf(call.callee);
  if (name === 'map' || name === 'flatMap') return misuseOf(call, code) === 'dropped' ? 'dropped' : undefined;
  return name === undefined ? undefined : CALLBACKS[name];
}

function ofArgument(call: TSESTree.CallExpression, code: Code): Misuse | undefined {
  const method = code.methodOf(call);
  if (method !== undefined) {
    if (COMBINATORS.has(method) || IN_MEMORY.has(method)) return undefined;
    if (method.startsWith('trace')) return 'printed';
    return FUTURE_METHODS.has(method) || method === 'setCustomStatus' ? 'stored' : undefined;
  }
  const path = pathOf(call.callee, code.source) ?? '';
  return path.startsWith('console.') ? 'printed' : CONVERSIONS[path];
}
