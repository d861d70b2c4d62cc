import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

// End-to-end tests import `perdure` by that name. It is the built package in dist/, reached as users reach it, and
// worker processes find the same one by Node's own self-reference. `npm run test:js` tests the last build. `npm test`
// builds first. Unit tests of one module import it from ../js/*.ts and need no addon.
const built = fileURLToPath(new URL('./dist/index.js', import.meta.url));

export default defineConfig({
  resolve: { alias: [{ find: /^perdure$/, replacement: built }] },
  test: {
    include: ['__test__/**/*.test.ts'],
    // Tests run in processes: an addon that crashes takes down its own file only, and each file has its own environment
    // variables.
    pool: 'forks',
    // Hooks make stores and drop them, and a busy server takes its time to make a database.
    hookTimeout: 60_000,
    reporters: ['default', './__test__/support/closing-line.ts'],
    typecheck: {
      enabled: true,
      include: ['__test__/**/*.test-d.ts'],
      tsconfig: '__test__/tsconfig.json',
    },
    server: {
      // Node loads the built package itself, once per process: its addon must not be loaded twice.
      deps: { external: [/[\\/]dist[\\/]/, /[\\/]native[\\/]/] },
    },
  },
});
