// The common beginning of the rules.

import { ESLintUtils } from '@typescript-eslint/utils';

export interface Docs {
  /** True if the recommended config turns the rule on. */
  readonly recommended: boolean;
}

/** Creates a rule that is documented in a section of the README. */
export const createRule = ESLintUtils.RuleCreator<Docs>(
  (name) => `https://www.npmjs.com/package/eslint-plugin-perdure#${name}`,
);
