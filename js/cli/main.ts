#!/usr/bin/env node
// The command line `perdure`.

import { run } from './program.ts';

// The reader of the output has closed it, as in `perdure list --all | head`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});

const { stdout, stderr, stdin } = process;
process.exitCode = await run(process.argv.slice(2), {
  stdout,
  stderr,
  isInteractive: stdin.isTTY === true && stderr.isTTY === true,
});
