// Names of globals and of exports of modules, as the code of a file uses them.
//
// A path is `Date.now` for a global, and `node:crypto.randomUUID` for an export of a module. Imports under other names,
// destructured objects and constants that stand for one are followed.

import { isBuiltin } from 'node:module';
import { ASTUtils, AST_NODE_TYPES as Node, type TSESLint, type TSESTree } from '@typescript-eslint/utils';

type SourceCode = Readonly<TSESLint.SourceCode>;
type Definition = TSESLint.Scope.Definition;

/** The number of constants that are followed one after the other. */
const CONSTANTS_MAX = 8;

/** Objects whose properties are the globals. */
const GLOBAL_OBJECTS = new Set(['globalThis', 'global', 'window', 'self']);

/** Returns the variable that an identifier stands for; `undefined` for a global that the file does not declare. */
export function variableOf(identifier: TSESTree.Identifier | TSESTree.JSXIdentifier, source: SourceCode) {
  return ASTUtils.findVariable(source.getScope(identifier), identifier.name) ?? undefined;
}

/** Returns the expression that a variable is defined with, if there is one. */
export function initOf(definition: Definition | undefined): TSESTree.Expression | undefined {
  return (definition?.type === 'Variable' ? definition.node.init : undefined) ?? undefined;
}

/** Returns an expression without parentheses, assertions of its type and `?.`. */
export function bare(node: TSESTree.Node): TSESTree.Node {
  let inner = node;
  for (;;) {
    if (
      inner.type === Node.TSAsExpression ||
      inner.type === Node.TSNonNullExpression ||
      inner.type === Node.TSSatisfiesExpression ||
      inner.type === Node.TSTypeAssertion ||
      inner.type === Node.ChainExpression
    )
      inner = inner.expression;
    else return inner;
  }
}

/** Returns the path of an expression; `undefined` if it stands for neither a global nor an export. */
export function pathOf(node: TSESTree.Node, source: SourceCode, left = CONSTANTS_MAX): string | undefined {
  const expression = bare(node);
  if (expression.type === Node.MemberExpression) {
    const object = pathOf(expression.object, source, left);
    const key = ASTUtils.getPropertyName(expression, source.getScope(expression));
    return object === undefined || key === null ? undefined : joined(object, key);
  }
  if (expression.type === Node.Identifier) {
    const variable = variableOf(expression, source);
    const [definition] = variable?.defs ?? [];
    if (definition === undefined) return GLOBAL_OBJECTS.has(expression.name) ? '' : expression.name;
    return left === 0 ? undefined : pathOfDefinition(definition, expression.name, source, left - 1);
  }
  const required = requiredModule(expression);
  return required === undefined ? undefined : moduleName(required);
}

function pathOfDefinition(definition: Definition, name: string, source: SourceCode, left: number): string | undefined {
  if (definition.type === 'ImportBinding') {
    const { node, parent } = definition;
    if (parent?.type !== Node.ImportDeclaration) return undefined;
    const module = moduleName(parent.source.value);
    if (node.type !== Node.ImportSpecifier) return module;
    const imported = node.imported.type === Node.Identifier ? node.imported.name : node.imported.value;
    return imported === 'default' ? module : joined(module, imported);
  }
  if (definition.type !== 'Variable' || definition.parent.kind !== 'const') return undefined;
  const { id, init } = definition.node;
  if (init === null) return undefined;
  if (id.type === Node.Identifier) return pathOf(init, source, left);
  if (id.type !== Node.ObjectPattern) return undefined;
  for (const property of id.properties) {
    if (property.type !== Node.Property || property.value.type !== Node.Identifier) continue;
    const key = ASTUtils.getPropertyName(property);
    if (property.value.name !== name || key === null) continue;
    const object = pathOf(init, source, left);
    return object === undefined ? undefined : joined(object, key);
  }
  return undefined;
}

function joined(object: string, key: string): string {
  if (object === '') return GLOBAL_OBJECTS.has(key) ? '' : key;
  // The default export of a module of Node has all its exports.
  return key === 'default' ? object : `${object}.${key}`;
}

function requiredModule(node: TSESTree.Node): string | undefined {
  if (node.type !== Node.CallExpression || node.callee.type !== Node.Identifier || node.callee.name !== 'require')
    return undefined;
  const [module] = node.arguments;
  return module?.type === Node.Literal && typeof module.value === 'string' ? module.value : undefined;
}

function moduleName(name: string): string {
  return isBuiltin(name) && !name.startsWith('node:') ? `node:${name}` : name;
}
