// The runtimes that run the installed package: this Node, and those that `npm run test:package` names beside it.

import { execFileSync } from 'node:child_process';

export interface Runtime {
  /** `node v20.20.2` */
  readonly name: string;
  readonly command: string;
}

export function runtimes(): Runtime[] {
  const others = JSON.parse(process.env.PERDURE_TEST_RUNTIMES ?? '[]') as string[];
  return [process.execPath, ...others].map((command) => ({ name: nameOf(command), command }));
}

function nameOf(command: string): string {
  const script =
    "process.stdout.write(process.versions.bun ? 'bun ' + process.versions.bun : 'node ' + process.version)";
  return execFileSync(command, ['-e', script], { encoding: 'utf8' });
}
