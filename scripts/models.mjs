// Model-checks the scheduler: it runs every order in which its threads can come to each other. The build has a folder
// of its own, because everything below it is compiled in another way.

import { spawnSync } from 'node:child_process';

const flags = [process.env.RUSTFLAGS, '--cfg loom'].filter(Boolean).join(' ');
const args = ['test', '-p', 'perdure-scheduler', '--release', '--test', 'models', '--target-dir', 'target/loom'];
const { status, error } = spawnSync('cargo', args, { stdio: 'inherit', env: { ...process.env, RUSTFLAGS: flags } });
if (error) throw error;
process.exit(status ?? 1);
