import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

// End-to-end tests import `perdure` by that name. It is the built package in dist/, reached as users reach it, and
// worker processes find the same one by Node's own self-reference. `npm run test:js` tests the last build. `npm test`
// builds first. Unit tests of one module import it from ../js/*.ts and need no addon.
const built = fileURLToPath(new URL('./dist/index.js', import.meta.url));

const ALL = ['__test__/**/*.test.ts'];
/** Tests that measure the memory or the processes of a machine, or kill and starve its processes. Each runs alone. */
const ALONE = ['__test__/{chaos,soak}/*.test.ts', '__test__/crash/{memory,rounds,watchdog}.test.ts'];
/** Tests that `--mode quick` leaves out: each file takes many seconds, or needs a browser or a package. */
const SLOW = [
  ...ALONE,
  '__test__/{crash,dashboard,examples,package}/**',
  '__test__/{docs,simulate,site}.test.ts',
  '__test__/schedules/times.test.ts',
  '__test__/{cli,binding}/{arguments,commands,history-pages,loader}.test.ts',
  '__test__/e2e/runtime/threads.test.ts',
  '__test__/e2e/store/**',
];

export default defineConfig(({ mode }) => {
  const isQuick = mode === 'quick';
  const other = {
    extends: true as const,
    test: {
      name: 'tests',
      include: ALL,
      exclude: isQuick ? SLOW : ALONE,
      // Tests wait for servers, disks and processes half of the time.
      maxWorkers: availableParallelism() + 1,
      // The files of a worker share its process and its modules: loading these takes longer than many a file does.
      isolate: false,
      sequence: { groupOrder: 0 },
      // The quick tests use one store.
      env: isQuick ? { PERDURE_TEST_STORES: 'sqlite' } : {},
      typecheck: {
        enabled: !isQuick,
        include: ['__test__/**/*.test-d.ts'],
        tsconfig: '__test__/tsconfig.json',
      },
    },
  };
  const alone = {
    extends: true as const,
    test: { name: 'alone', include: ALONE, maxWorkers: 1, sequence: { groupOrder: 1 } },
  };
  return {
    resolve: { alias: [{ find: /^perdure$/, replacement: built }] },
    test: {
      projects: isQuick ? [other] : [other, alone],
      // Tests run in processes of their own, not in threads: an addon that crashes leaves the runner alive.
      pool: 'forks',
      // Limits end what hangs. A busy machine is slow, and no test waits for a limit to pass.
      testTimeout: 120_000,
      hookTimeout: 120_000,
      expect: { poll: { timeout: 20_000 } },
      reporters: ['default', './__test__/support/closing-line.ts'],
      server: {
        // Node loads the built package itself, once per process: its addon must not be loaded twice.
        deps: { external: [/[\\/]dist[\\/]/, /[\\/]native[\\/]/] },
      },
    },
  };
});
