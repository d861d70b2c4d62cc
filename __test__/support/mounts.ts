// File systems of a test's own, which are small, so that they can be filled up, and whose power can be cut. Linux lets
// only root mount.

import { execFile, spawn, spawnSync } from 'node:child_process';
import { closeSync, ftruncateSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

import { eventually } from './async.ts';
import { temporaryFolder } from './providers.ts';

const run = promisify(execFile);

/**
 * `EXT4_IOC_SHUTDOWN` with `EXT4_GOING_FLAGS_NOLOGFLUSH`: nothing is written from now on, not even the part of the
 * journal that is in memory.
 */
const CUT = `open my $folder, "<", $ARGV[0] or die "$!\\n"; my $flags = pack "L", 2; $| = 1; print "ready\\n";
  <STDIN>; ioctl $folder, 0x8004587d, $flags or die "$!\\n"; print "cut\\n"`;

/** Time for which processes that were ended may still keep a file system busy, ms. */
const BUSY_MS = 20_000;

type Lines = AsyncIterator<string, undefined>;

const BLOCK = Buffer.alloc(64 * 1024);

function missingProgram(...programs: readonly string[]): string | undefined {
  const missing = programs.find((program) => spawnSync('which', [program]).status !== 0);
  return missing === undefined ? undefined : `the program '${missing}' is not here`;
}

const notRoot =
  process.platform !== 'linux'
    ? 'only Linux mounts them'
    : process.getuid?.() !== 0
      ? 'only root mounts them'
      : undefined;

/** A file system under a temporary folder. */
export class Mount {
  /** The folder where it is mounted. Users of any id have access. */
  readonly folder: string;
  readonly #temporary: string;
  readonly #mount: readonly string[];

  private constructor(temporary: string, mount: readonly string[]) {
    this.#temporary = temporary;
    this.folder = join(temporary, 'mounted');
    this.#mount = mount;
    mkdirSync(this.folder);
  }

  /** Mounts a file system in memory. */
  static async tmpfs(bytes: number): Promise<Mount> {
    const mount = new Mount(reachable(), ['-t', 'tmpfs', '-o', `size=${bytes},mode=777`, 'tmpfs']);
    await mount.#do();
    return mount;
  }

  /** Mounts an ext4 file system in a file. */
  static async ext4(bytes: number): Promise<Mount> {
    const temporary = reachable();
    const image = join(temporary, 'image');
    const file = openSync(image, 'w');
    ftruncateSync(file, bytes);
    closeSync(file);
    await run('mkfs.ext4', ['-q', '-F', '-E', 'root_owner=0:0', image]);
    const mount = new Mount(temporary, ['-o', 'loop', image]);
    await mount.#do();
    return mount;
  }

  async #do(): Promise<void> {
    await run('mount', [...this.#mount, this.folder]);
  }

  subfolder(name: string): string {
    const path = join(this.folder, name);
    mkdirSync(path);
    return path;
  }

  /** Writes a file that takes all the free space. Returns its path. */
  fill(): string {
    const path = join(this.folder, 'filler');
    const file = openSync(path, 'w');
    try {
      // Smaller blocks fill the last bytes as well.
      for (const size of [BLOCK.length, 4096, 1]) while (fits(file, size));
    } finally {
      closeSync(file);
    }
    return path;
  }

  /** Syncs the file system: all data that was written so far stays. */
  async sync(): Promise<void> {
    await run('sync', ['-f', this.folder]);
  }

  /**
   * Prepares a power cut, which the returned function carries out. Unsynced writes are lost, and later writes fail.
   *
   * A sync that is called within the first 10 ms of the cut may succeed although what it synced is lost: the kernel
   * stops the journal a moment after it has stopped the writes. Callers take no notice of what happens from the call of
   * the function on.
   */
  async powerSwitch(): Promise<() => Promise<void>> {
    const perl = spawn('perl', ['-e', CUT, this.folder], { stdio: 'pipe' });
    const [lines, errors] = [perl.stdout, perl.stderr].map((stream) =>
      createInterface(stream)[Symbol.asyncIterator](),
    ) as unknown as [Lines, Lines];
    const hear = async (line: string) => {
      const { value } = await lines.next();
      if (value !== line) throw new Error(`the power cannot be cut: ${(await errors.next()).value}`);
    };
    await hear('ready');
    return async () => {
      perl.stdin.write('\n');
      await hear('cut');
    };
  }

  /** Restores the power. All processes that used the file system must have ended. */
  async restorePower(): Promise<void> {
    await this.#unmount();
    await this.#do();
  }

  async remove(): Promise<void> {
    await this.#unmount();
    rmSync(this.#temporary, { recursive: true });
  }

  async #unmount(): Promise<void> {
    const { folder } = this;
    // A process that was killed may still be exiting.
    await eventually(BUSY_MS, `unmount ${folder}`, () =>
      run('umount', [folder]).then(
        () => true,
        () => false,
      ),
    );
  }
}

function reachable(): string {
  return temporaryFolder(0o755);
}

function fits(file: number, size: number): boolean {
  try {
    return writeSync(file, BLOCK, 0, size) > 0;
  } catch (error) {
    if ((error as { code?: string }).code !== 'ENOSPC') throw error;
    return false;
  }
}

/** The reason for which there is no file system in memory here. `undefined` if there is. */
export const noTmpfs = notRoot ?? (await refusalOf(() => Mount.tmpfs(65_536)));

/** The reason for which the power cannot be cut here. `undefined` if it can. */
export const noPowerCut =
  notRoot ??
  missingProgram('perl', 'mkfs.ext4') ??
  (await refusalOf(async () => {
    const mount = await Mount.ext4(8 * 1024 * 1024);
    await (await mount.powerSwitch())();
    return mount;
  }));

async function refusalOf(make: () => Promise<Mount>): Promise<string | undefined> {
  try {
    await (await make()).remove();
    return undefined;
  } catch (error) {
    const { stderr, message } = error as { stderr?: string; message: string };
    return `this machine refuses (${(stderr || message).trim()})`;
  }
}
