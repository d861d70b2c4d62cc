import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

// End to end tests import `perdure`, by that name: it is the built package in dist/, reached as its users reach it,
// and their worker processes find the same one by Node's own self-reference. `npm run test:js` tests what was built
// last; `npm test` builds first. Unit tests of one module import it from ../js/*.ts and need no addon.
const built = fileURLToPath(new URL('./dist/index.js', import.meta.url));

export default defineConfig({
  resolve: { alias: [{ find: /^perdure$/, replacement: built }] },
  test: {
    include: ['__test__/**/*.test.ts'],
    // Processes: an addon that crashes takes its own file down and no other, and environment variables are its own.
    pool: 'forks',
    // Hooks make stores and drop them, and a server that others use takes its time for a database.
    hookTimeout: 60_000,
    reporters: ['default', './__test__/support/closing-line.ts'],
    typecheck: {
      enabled: true,
      include: ['__test__/**/*.test-d.ts'],
      tsconfig: '__test__/tsconfig.json',
    },
    server: {
      // Node loads the built package itself, once per process: its addon must not be there twice.
      deps: { external: [/[\\/]dist[\\/]/, /[\\/]native[\\/]/] },
    },
  },
});
