// eslint-plugin-perdure: rules for the orchestrations and activities of Perdure.

import manifest from '../package.json' with { type: 'json' };
import { noForgottenYield } from './rules/no-forgotten-yield.ts';
import { noNondeterminism } from './rules/no-nondeterminism.ts';
import { noPromises } from './rules/no-promises.ts';
import { requireSignal } from './rules/require-signal.ts';

const plugin = {
  meta: { name: manifest.name, version: manifest.version, namespace: 'perdure' },
  rules: {
    'no-forgotten-yield': noForgottenYield,
    'no-nondeterminism': noNondeterminism,
    'no-promises': noPromises,
    'require-signal': requireSignal,
  },
  configs: {},
};

const recommended = {
  name: 'perdure/recommended',
  plugins: { perdure: plugin },
  rules: Object.fromEntries(Object.keys(plugin.rules).map((rule) => [`perdure/${rule}`, 'error'])),
};

plugin.configs = { recommended };

export default plugin;
