// Facts from the types of a file, if the parser has them.

import {
  ESLintUtils,
  type ParserServicesWithTypeInformation,
  type TSESLint,
  type TSESTree,
} from '@typescript-eslint/utils';

import { CONTEXT_TYPES } from './facts.ts';

type Context = Readonly<TSESLint.RuleContext<string, readonly unknown[]>>;
type Services = ParserServicesWithTypeInformation;
type Type = ReturnType<Services['getTypeAtLocation']>;

const FUTURES = new Set(['Future', 'FiberFuture', 'Deferred']);
const GENERATORS = new Set(['Generator', 'OrchestrationGenerator']);
const PROMISES = new Set(['Promise', 'PromiseLike']);

/** A kind of value, by its type. `unknown` if the types do not tell. */
export type Kind = 'future' | 'generator' | 'promise' | 'context' | 'other' | 'unknown';

/** Reads the types of the expressions of a file. */
export class Types {
  private readonly services: Services | undefined;

  constructor(context: Context) {
    const { parserServices } = context.sourceCode;
    // The parser of typescript-eslint has services without types, too.
    this.services = parserServices?.program ? ESLintUtils.getParserServices(context as never) : undefined;
  }

  kindOf(node: TSESTree.Node): Kind {
    if (this.services === undefined) return 'unknown';
    const kinds = new Set(this.partsAt(node).map((part) => this.kindOfPart(part)));
    for (const kind of ['future', 'promise', 'generator', 'context'] as const) if (kinds.has(kind)) return kind;
    return kinds.has('unknown') ? 'unknown' : 'other';
  }

  /** True if an expression may be `undefined` or `null` by its type: a condition then asks if there is a value. */
  isOptional(node: TSESTree.Node): boolean {
    return this.partsAt(node).some((part) => ['undefined', 'null'].includes(this.textOf(part)));
  }

  private partsAt(node: TSESTree.Node): readonly Type[] {
    return this.services === undefined ? [] : partsOf(this.services.getTypeAtLocation(node));
  }

  private kindOfPart(type: Type): Kind {
    const name = type.getSymbol()?.name ?? type.aliasSymbol?.name;
    if (name === undefined) return ['any', 'unknown'].includes(this.textOf(type)) ? 'unknown' : 'other';
    if (FUTURES.has(name)) return type.getProperty('cancel') === undefined ? 'other' : 'future';
    if (GENERATORS.has(name)) return 'generator';
    if (CONTEXT_TYPES.has(name)) return 'context';
    return PROMISES.has(name) || type.getProperty('then') !== undefined ? 'promise' : 'other';
  }

  /** Returns the text of a type. The numbers of its flags differ between versions of TypeScript. */
  private textOf(type: Type): string {
    return this.services?.program.getTypeChecker().typeToString(type) ?? '';
  }
}

function partsOf(type: Type): readonly Type[] {
  return type.isUnionOrIntersection() ? type.types.flatMap(partsOf) : [type];
}
