// Runs a command of the tests with a PgBouncer in transaction mode before the server of PERDURE_TEST_POSTGRES_URL. The
// command finds the URL of the pooler in PERDURE_TEST_POOLER_URL:
//
//   node scripts/with-programs.mjs pgbouncer node scripts/with-postgres.mjs \
//     node scripts/with-pooler.mjs cargo test --workspace
//
// The program is the one that PERDURE_TEST_PGBOUNCER names. Without it the command runs none the less, and its tests
// connect to the server itself.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';

import { answers, freePort, run } from './running.mjs';

/** The longest time until the pooler answers, ms. */
const START_MS = 20_000;

const [command, ...args] = process.argv.slice(2);
const program = process.env.PERDURE_TEST_PGBOUNCER;
if (program) {
  const { url, stop } = await pooler(new URL(process.env.PERDURE_TEST_POSTGRES_URL));
  process.exitCode = await run(command, args, { ...process.env, PERDURE_TEST_POOLER_URL: url });
  await stop();
} else {
  console.error('There is no PgBouncer here: the contract of providers is tested without a pooler.');
  process.exitCode = await run(command, args, process.env);
}

async function pooler(server) {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'perdure-pooler-'));
  const ini = join(folder, 'pgbouncer.ini');
  const { hostname, username, password } = server;
  const user = `user=${decodeURIComponent(username) || 'postgres'}`;
  const login = password === '' ? user : `${user} password=${decodeURIComponent(password)}`;
  const settings = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'any',
    pool_mode: 'transaction',
    default_pool_size: 20,
    max_client_conn: 2000,
    log_connections: 0,
    log_disconnections: 0,
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}\n`);
  writeFileSync(
    ini,
    `[databases]\n* = host=${hostname} port=${server.port || 5432} ${login}\n[pgbouncer]\n${lines.join('')}`,
    { mode: 0o600 },
  );
  // PgBouncer does not run as root.
  const owner = process.getuid?.() === 0 ? { uid: idOf('-u'), gid: idOf('-g') } : {};
  if (owner.uid !== undefined) for (const path of [folder, ini]) chownSync(path, owner.uid, owner.gid);

  const said = [];
  const child = spawn(program, [ini], { ...owner, stdio: ['ignore', 'pipe', 'pipe'] });
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => said.push(data));
  const ended = once(child, 'exit');
  const url = Object.assign(new URL(server), { host: `127.0.0.1:${port}` }).href;
  const until = Date.now() + START_MS;
  while (!(await answers(url))) {
    if (child.exitCode !== null || Date.now() > until) {
      console.error(`The PgBouncer before the test server does not answer:\n${said.join('')}`);
      process.exit(1);
    }
    await setTimeout(50);
  }
  return { url, stop };

  async function stop() {
    child.kill();
    await ended;
    rmSync(folder, { recursive: true, force: true });
  }
}

/** An id of the unprivileged user that owns no files. */
function idOf(which) {
  return Number(spawnSync('id', [which, 'nobody'], { encoding: 'utf8' }).stdout);
}
