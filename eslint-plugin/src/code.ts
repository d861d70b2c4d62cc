// Which code of a file belongs to orchestrations and activities, and which calls return futures.
//
// A function is an orchestration if it is given to `defineOrchestration` or `registerOrchestration`, if the type of a
// parameter is `OrchestrationContext` or `EntityContext`, or if it is a `function*` whose first parameter has the name
// of a context. So are the handlers of `defineEntity`, and its `initial`. A function inside of an orchestration belongs
// to it, unless it is given to `ctx.run`.

import { ASTUtils, AST_NODE_TYPES as Node, type TSESLint, type TSESTree } from '@typescript-eslint/utils';

import {
  ACTIVITY_DEFINERS,
  CONTEXT_NAMES,
  CONTEXT_TYPES,
  ENTITY_CODE,
  ENTITY_DEFINERS,
  FREE_MODULE,
  FUTURE_METHODS,
  ORCHESTRATION_DEFINERS,
} from './facts.ts';
import { bare, initOf, pathOf, variableOf } from './paths.ts';
import { Types } from './types.ts';

export type RuleContext = Readonly<TSESLint.RuleContext<string, readonly unknown[]>>;

export type FunctionNode =
  | TSESTree.ArrowFunctionExpression
  | TSESTree.FunctionDeclaration
  | TSESTree.FunctionExpression;

export interface FunctionInfo {
  readonly place: 'orchestration' | 'activity' | 'other';
  /** True if the function was given to a definition: what it returns is the output. */
  readonly isDefined: boolean;
}

const OTHER: FunctionInfo = { place: 'other', isDefined: false };

export class Code {
  readonly source: Readonly<TSESLint.SourceCode>;
  readonly types: Types;
  private readonly contextNames: ReadonlySet<string>;
  private readonly infos = new Map<FunctionNode, FunctionInfo>();

  constructor(context: RuleContext) {
    this.source = context.sourceCode;
    this.types = new Types(context);
    const settings = context.settings.perdure as { contextNames?: readonly string[] } | undefined;
    this.contextNames = new Set(settings?.contextNames ?? CONTEXT_NAMES);
  }

  /** Returns the function around a node. */
  functionOf(node: TSESTree.Node): FunctionNode | undefined {
    for (let at = parentOf(node); at !== undefined; at = parentOf(at)) if (isFunction(at)) return at;
    return undefined;
  }

  infoAt(node: TSESTree.Node): FunctionInfo {
    const fn = this.functionOf(node);
    return fn === undefined ? OTHER : this.infoOf(fn);
  }

  infoOf(fn: FunctionNode): FunctionInfo {
    const known = this.infos.get(fn);
    if (known !== undefined) return known;
    // A function that leads back to itself is looked at once.
    this.infos.set(fn, OTHER);
    const info = this.classify(fn);
    this.infos.set(fn, info);
    return info;
  }

  /** Returns the name of the method or free function if a node is a call that returns a future. */
  futureMethod(node: TSESTree.Node): string | undefined {
    const call = bare(node);
    if (call.type !== Node.CallExpression) return undefined;
    const method = this.methodOf(call);
    if (method !== undefined && FUTURE_METHODS.has(method)) return method;
    return this.types.kindOf(call) === 'future' ? (nameOf(call.callee) ?? 'call') : undefined;
  }

  /** Returns the name of a method of a context, or of a free function, that is called. */
  methodOf({ callee }: TSESTree.CallExpression): string | undefined {
    const called = bare(callee);
    if (called.type === Node.MemberExpression && this.isContext(called.object)) return nameOf(called);
    const path = pathOf(called, this.source);
    return path?.startsWith(`${FREE_MODULE}.`) === true ? path.slice(FREE_MODULE.length + 1) : undefined;
  }

  /** True if an expression is the context of an orchestration. */
  isContext(node: TSESTree.Node): boolean {
    const expression = bare(node);
    const kind = this.types.kindOf(expression);
    if (kind !== 'unknown') return kind === 'context';
    if (expression.type === Node.CallExpression)
      return pathOf(expression.callee, this.source) === `${FREE_MODULE}.currentContext`;
    if (expression.type !== Node.Identifier) return false;
    const [definition] = variableOf(expression, this.source)?.defs ?? [];
    if (definition?.type === 'Parameter') {
      const fn = definition.node as TSESTree.Node;
      if (!isFunction(fn)) return false;
      const parameter = fn.params.find((one) => one === definition.name);
      if (parameter === undefined) return false;
      if (isContextType(annotationOf(parameter))) return true;
      return parameter === fn.params[0] && this.isOrchestrationItself(fn);
    }
    const init = initOf(definition);
    return init !== undefined && this.isContext(init);
  }

  private classify(fn: FunctionNode): FunctionInfo {
    const role = this.roleOf(fn);
    if (role !== undefined) return { place: role, isDefined: true };
    const outer = this.infoAt(fn);
    if (outer.place !== 'other') return { place: outer.place, isDefined: false };
    if (annotationOf(fn.params[0]) === 'ActivityContext') return { place: 'activity', isDefined: false };
    return this.isOrchestrationItself(fn) || this.callsFreely(fn)
      ? { place: 'orchestration', isDefined: false }
      : OTHER;
  }

  /** True if a function is an orchestration by itself, without a look at the code around it. */
  private isOrchestrationItself(fn: FunctionNode): boolean {
    if (this.roleOf(fn) === 'orchestration') return true;
    if (fn.params.some((parameter) => isContextType(annotationOf(parameter)))) return true;
    const [first] = fn.params;
    if (first === undefined || annotationOf(first) !== undefined) return false;
    return fn.generator && first.type === Node.Identifier && this.contextNames.has(first.name);
  }

  /** Returns what a function is given to: itself, or by its name. */
  private roleOf(fn: FunctionNode): 'orchestration' | 'activity' | undefined {
    const direct = this.roleAt(fn);
    if (direct !== undefined) return direct;
    const name = fn.type === Node.FunctionDeclaration ? fn.id : nameOfInit(fn);
    if (name === null || name === undefined) return undefined;
    for (const { identifier } of variableOf(name, this.source)?.references ?? []) {
      const role = this.roleAt(identifier as TSESTree.Node);
      if (role !== undefined) return role;
    }
    return undefined;
  }

  private roleAt(node: TSESTree.Node): 'orchestration' | 'activity' | undefined {
    const { argument, key } = placeOf(node);
    const call = argument.parent;
    if (call?.type !== Node.CallExpression || call.arguments[1] !== argument) return undefined;
    const name = pathOf(call.callee, this.source)?.split('.').at(-1) ?? nameOf(call.callee);
    if (name === undefined) return undefined;
    if (key !== undefined) return ENTITY_DEFINERS.has(name) && ENTITY_CODE.has(key) ? 'orchestration' : undefined;
    if (ORCHESTRATION_DEFINERS.has(name)) return 'orchestration';
    if (ACTIVITY_DEFINERS.has(name)) return 'activity';
    return name === 'run' && this.methodOf(call) === 'run' ? 'activity' : undefined;
  }

  /** True if the code of a `function*` calls free functions: it belongs to an orchestration. */
  private callsFreely(fn: FunctionNode): boolean {
    if (!fn.generator) return false;
    const scope = this.source.getScope(fn.body);
    return scope.through.some(({ identifier }) =>
      identifier.type === Node.Identifier ? pathOf(identifier, this.source)?.startsWith(FREE_MODULE) === true : false,
    );
  }
}

export function isFunction(node: TSESTree.Node): node is FunctionNode {
  return ASTUtils.isFunction(node);
}

/** Returns a node together with the assertions of its type and the `?.` around it. */
export function outermost(node: TSESTree.Node): TSESTree.Node {
  let outer = node;
  for (let at = parentOf(outer); at !== undefined && bare(at) === bare(node); at = parentOf(at)) outer = at;
  return outer;
}

/** Returns the node that may be an argument, and the key of that object under which it holds the given node. */
function placeOf(node: TSESTree.Node): { argument: TSESTree.Node; key?: string | undefined } {
  let place: ReturnType<typeof placeOf> = { argument: outermost(node) };
  for (let { parent } = place.argument; parent?.type === Node.Property; { parent } = place.argument) {
    if (parent.value !== place.argument) break;
    place = { argument: outermost(parent.parent), key: ASTUtils.getPropertyName(parent) ?? '' };
  }
  return place;
}

function isContextType(name: string | undefined): boolean {
  return name !== undefined && CONTEXT_TYPES.has(name);
}

/** Returns the parent of a node. Some parsers give the program `null` as its parent. */
export function parentOf(node: TSESTree.Node): TSESTree.Node | undefined {
  return node.parent ?? undefined;
}

/** Returns the last name of a callee: `call` of `ctx.call`. */
export function nameOf(callee: TSESTree.Node): string | undefined {
  const called = bare(callee);
  if (called.type === Node.Identifier) return called.name;
  return called.type === Node.MemberExpression ? (ASTUtils.getPropertyName(called) ?? undefined) : undefined;
}

function nameOfInit(fn: FunctionNode): TSESTree.Identifier | undefined {
  const init = outermost(fn);
  const { parent } = init;
  if (parent?.type !== Node.VariableDeclarator || parent.init !== init) return undefined;
  return parent.id.type === Node.Identifier ? parent.id : undefined;
}

function annotationOf(parameter: TSESTree.Parameter | undefined): string | undefined {
  if (parameter?.type !== Node.Identifier) return undefined;
  const type = parameter.typeAnnotation?.typeAnnotation;
  if (type?.type !== Node.TSTypeReference) return undefined;
  const { typeName } = type;
  return typeName.type === Node.Identifier
    ? typeName.name
    : typeName.type === Node.TSQualifiedName
      ? typeName.right.name
      : undefined;
}
