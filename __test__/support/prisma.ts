// The generated client of Prisma, which each program with that library needs.

import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(new URL('../../node_modules/prisma/build/index.js', import.meta.url));

/** Writes the client of the file `schema.prisma` in a folder, as `npx prisma generate` does. */
export function generatePrismaClient(folder: string): void {
  execFileSync(process.execPath, [program, 'generate', '--schema', 'schema.prisma'], {
    cwd: folder,
    // Prisma downloads its engine of migrations if no program is named, also for a command that does not use it.
    env: { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' },
    stdio: 'pipe',
  });
}
