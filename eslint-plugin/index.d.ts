import type { ESLint, Linter } from 'eslint';

/** The rules for orchestrations and activities, and the flat config that turns all of them on. */
declare const plugin: Omit<ESLint.Plugin, 'configs'> & {
  readonly configs: {
    /** All rules, as errors. */
    readonly recommended: Linter.Config;
  };
};

export default plugin;
