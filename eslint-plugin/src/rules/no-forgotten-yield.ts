// A future that is used as if it were its value, or that no code waits for.

import { AST_NODE_TYPES as Node, type TSESLint, type TSESTree } from '@typescript-eslint/utils';

import { Code, type FunctionNode, isFunction, outermost } from '../code.ts';
import { DETACHED_METHODS } from '../facts.ts';
import { bare, initOf, variableOf } from '../paths.ts';
import { createRule } from '../rule.ts';
import { type Misuse, misuseOf } from '../uses.ts';

/** The number of characters that a message shows of an expression. */
const SHOWN_MAX = 40;

const USES: Readonly<Record<Exclude<Misuse, 'dropped'>, string>> = {
  condition: 'as a condition, which a future always meets',
  text: 'as a text',
  number: 'in a calculation or a comparison',
  list: 'as a list',
  parts: 'for a property that its value may have',
  stored: 'in a value that is stored',
  output: 'in the output',
  printed: 'in the place of its value in a log',
};

/** Misuses of a call of a `function*`, which is a list as well. */
const OF_GENERATORS: ReadonlySet<Misuse> = new Set(['dropped', 'condition', 'text', 'number', 'stored', 'output']);

/** Nodes in which `yield*` needs parentheses. */
const TIGHT: ReadonlySet<string> = new Set([
  Node.BinaryExpression,
  Node.UnaryExpression,
  Node.LogicalExpression,
  Node.ConditionalExpression,
  Node.MemberExpression,
  Node.TSAsExpression,
  Node.TSNonNullExpression,
  Node.TSSatisfiesExpression,
]);

type MessageId = 'dropped' | 'unused' | 'used' | 'write';
type Context = Readonly<TSESLint.RuleContext<MessageId, readonly unknown[]>>;

export const noForgottenYield = createRule({
  name: 'no-forgotten-yield',
  meta: {
    type: 'problem',
    docs: {
      description: 'require `yield*` for the futures of an orchestration',
      recommended: true,
    },
    hasSuggestions: true,
    schema: [],
    messages: {
      dropped: 'No code waits for `{{what}}`: write `yield*` before it, or cancel it if its value is not needed.',
      unused: "No code waits for '{{what}}', which holds a future: write `yield*` before the call.",
      used: '`{{what}}` is a future, and is used {{use}}: write `yield*` before it to use its value.',
      write: 'Write `yield*` before it.',
    },
  },
  defaultOptions: [],
  create(context) {
    const check = new Check(context);
    return {
      CallExpression: (node) => check.call(node),
      Identifier: (node) => check.typed(node),
      MemberExpression: (node) => check.typed(node),
    };
  },
});

/** The check of one file. */
class Check {
  private readonly context: Context;
  private readonly code: Code;

  constructor(context: Context) {
    this.context = context;
    this.code = new Code(context);
  }

  call(node: TSESTree.CallExpression): void {
    const { code } = this;
    const method = code.futureMethod(node);
    if (method === undefined) {
      if (isGeneratorCall(node, code)) this.generator(node);
      return;
    }
    const { parent } = outermost(node);
    if (parent?.type === Node.VariableDeclarator) this.variable(parent, method);
    const misuse = misuseOf(node, code);
    if (misuse === undefined || (DETACHED_METHODS.has(method) && misuse === 'dropped')) return;
    // `return ctx.continueAsNew(…)` ends the execution as `yield*` does.
    if (method === 'continueAsNew' && misuse === 'output') return;
    this.report(node, misuse);
  }

  /** Checks an expression of which only the types tell that it is a future. */
  typed(node: TSESTree.Identifier | TSESTree.MemberExpression): void {
    const { code } = this;
    const misuse = misuseOf(node, code);
    if (misuse === undefined || code.types.kindOf(node) !== 'future') return;
    if (node.type === Node.Identifier && this.holdsCall(node)) return;
    this.report(node, misuse);
  }

  private generator(node: TSESTree.CallExpression): void {
    const fn = this.code.functionOf(node);
    // A function that is no generator hands the generator on, as the body of a channel's forEach does.
    if (fn?.generator !== true || this.code.infoOf(fn).place !== 'orchestration') return;
    const misuse = misuseOf(node, this.code);
    if (misuse !== undefined && OF_GENERATORS.has(misuse)) this.report(node, misuse);
  }

  /** Checks the uses of a variable that holds the future of a call. */
  private variable({ id, parent }: TSESTree.VariableDeclarator, method: string): void {
    if (id.type !== Node.Identifier) return;
    const variable = variableOf(id, this.code.source);
    const uses = variable?.references.filter((reference) => reference.isRead()) ?? [];
    const isExported = parent.parent.type === Node.ExportNamedDeclaration;
    if (uses.length === 0 && !DETACHED_METHODS.has(method) && !isExported)
      this.context.report({ node: id, messageId: 'unused', data: { what: id.name } });
    if (isWrittenAgain(variable)) return;
    for (const { identifier } of uses) {
      const misuse = misuseOf(identifier as TSESTree.Node, this.code);
      if (misuse !== undefined) this.report(identifier as TSESTree.Node, misuse);
    }
  }

  /** True if `variable` checks the uses of an identifier. */
  private holdsCall(node: TSESTree.Identifier): boolean {
    const variable = variableOf(node, this.code.source);
    const init = initOf(variable?.defs[0]);
    return init !== undefined && this.code.futureMethod(init) !== undefined && !isWrittenAgain(variable);
  }

  private report(node: TSESTree.Node, misuse: Misuse): void {
    if (misuse === 'condition' && this.code.types.isOptional(node)) return;
    const what = this.shown(node);
    const suggest = this.suggestionFor(node);
    if (misuse === 'dropped') this.context.report({ node, messageId: 'dropped', data: { what }, suggest });
    else this.context.report({ node, messageId: 'used', data: { what, use: USES[misuse] }, suggest });
  }

  private shown(node: TSESTree.Node): string {
    const text = this.code.source.getText(node).replace(/\s+/g, ' ');
    return text.length <= SHOWN_MAX ? text : `${text.slice(0, SHOWN_MAX)}…`;
  }

  private suggestionFor(node: TSESTree.Node): TSESLint.ReportSuggestionArray<MessageId> {
    if (this.code.functionOf(node)?.generator !== true) return [];
    const isTight = TIGHT.has(node.parent?.type ?? '');
    return [
      {
        messageId: 'write',
        fix: (fixer) => [
          fixer.insertTextBefore(node, isTight ? '(yield* ' : 'yield* '),
          ...(isTight ? [fixer.insertTextAfter(node, ')')] : []),
        ],
      },
    ];
  }
}

function isWrittenAgain(variable: TSESLint.Scope.Variable | undefined): boolean {
  return variable?.references.some((reference) => reference.isWrite() && reference.init !== true) === true;
}

/** True if a call returns the generator of a `function*`, by its type or by the function in the same file. */
function isGeneratorCall(call: TSESTree.CallExpression, code: Code): boolean {
  const kind = code.types.kindOf(call);
  if (kind !== 'unknown') return kind === 'generator';
  const callee = bare(call.callee);
  if (callee.type !== Node.Identifier) return false;
  const [definition] = variableOf(callee, code.source)?.defs ?? [];
  return functionOfDefinition(definition)?.generator === true;
}

function functionOfDefinition(definition: TSESLint.Scope.Definition | undefined): FunctionNode | undefined {
  if (definition?.type === 'FunctionName' && isFunction(definition.node)) return definition.node;
  const init = initOf(definition);
  const fn = init === undefined ? undefined : bare(init);
  return fn !== undefined && isFunction(fn) ? fn : undefined;
}
