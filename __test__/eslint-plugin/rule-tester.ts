// ESLint's tester of rules, run by Vitest: for JavaScript, for TypeScript without types, and with types.

import { fileURLToPath } from 'node:url';
import * as parser from '@typescript-eslint/parser';
import { type Rule, RuleTester } from 'eslint';
import { describe, it } from 'vitest';

RuleTester.describe = describe;
RuleTester.it = it;

const fixture = fileURLToPath(new URL('fixture/', import.meta.url));

/** A code that a rule refuses, with the messages in order. */
export interface Refused {
  readonly code: string;
  /** The id of each message. `'used (text)'` has the data `use: …text…`. */
  readonly errors: readonly {
    readonly messageId: string;
    readonly data?: Record<string, string>;
    readonly suggestions?: number;
  }[];
  readonly options?: readonly unknown[];
  readonly settings?: Record<string, unknown>;
}

export interface Cases {
  readonly valid: readonly (string | Omit<Refused, 'errors'>)[];
  readonly invalid: readonly Refused[];
}

const PARSERS = {
  javascript: { languageOptions: { ecmaVersion: 2024, sourceType: 'module' } },
  typescript: { languageOptions: { parser, sourceType: 'module' } },
  types: {
    languageOptions: {
      parser,
      sourceType: 'module',
      parserOptions: { projectService: true, tsconfigRootDir: fixture },
    },
  },
} as const;

/** Tests a rule on code of a language. `types` is TypeScript with types. */
export function testRule(language: keyof typeof PARSERS, name: string, rule: unknown, cases: Cases): void {
  const tester = new RuleTester(PARSERS[language] as never);
  const filename = language === 'types' ? `${fixture}app.mts` : undefined;
  const at = <T extends object>(one: T) => (filename === undefined ? one : { ...one, filename });
  tester.run(`${name} (${language})`, rule as Rule.RuleModule, {
    valid: cases.valid.map((one) => at(typeof one === 'string' ? { code: one } : one)) as never,
    invalid: cases.invalid.map(at) as never,
  });
}

/** Returns the code of an orchestration with a body. */
export function orchestration(body: string): string {
  return `defineOrchestration('order', function* (ctx, order) { ${body} });`;
}
