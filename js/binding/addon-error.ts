// The error of an addon that cannot be loaded: which package should be there, why it probably is not, and what to do.

import { PerdureError } from '../errors/errors.ts';

/** The platforms that have a package. Each package is named `perdure-` and the platform. */
export const PLATFORMS: readonly string[] = [
  'linux-x64-gnu',
  'linux-arm64-gnu',
  'linux-x64-musl',
  'linux-arm64-musl',
  'darwin-x64',
  'darwin-arm64',
  'win32-x64-msvc',
  'win32-arm64-msvc',
];

/**
 * Returns the error for an addon that is missing or does not load.
 *
 * @param cause - the loader's error; its causes are the attempts to load, one after the other
 * @param isThere - returns true if a module can be found
 */
export function addonError(cause: unknown, isThere: (specifier: string) => boolean): PerdureError {
  const platform = platformHere();
  const [why, advice] = reasonOf(cause, platform, (other) => isThere(`perdure-${other}/package.json`));
  const lines = [`Perdure's addon for ${platform} (Node ${process.version}) could not be loaded: ${why}`, advice];
  return new PerdureError(lines.join('\n'), 'ADDON_NOT_LOADED', { cause });
}

/**
 * Compares the version of the addon with that of the package that loads it. Each calls the other by position, so a call
 * across versions does something else than it was meant to.
 *
 * @throws PerdureError when the versions differ
 */
export function checkVersion(addon: string | undefined, version: string): void {
  if (addon === version) return;
  const platform = platformHere();
  const named = process.env.NAPI_RS_NATIVE_LIBRARY_PATH;
  const advice = named
    ? `NAPI_RS_NATIVE_LIBRARY_PATH names ${named}: unset it, or set it to the addon of this version.`
    : `Install the same version of perdure and perdure-${platform} (see package-lock.json). ${REINSTALL}`;
  const what =
    `Perdure's addon for ${platform} is of version ${addon ?? 'unknown'}, ` +
    `but the package perdure that loads it is of version ${version}.`;
  throw new PerdureError(`${what}\n${advice}`, 'ADDON_NOT_LOADED');
}

const REINSTALL = 'Delete node_modules and install again on the machine, or in the image, where the program runs.';

/** Returns the reason, and the advice. */
function reasonOf(
  cause: unknown,
  platform: string,
  hasPackage: (platform: string) => boolean,
): [why: string, advice: string] {
  if ((cause as { code?: unknown }).code === 'MODULE_NOT_FOUND') {
    return [
      'its loader is not next to this code: a bundler has probably moved the code out of its package.',
      'Leave `perdure` out of the bundle ' +
        "(esbuild: --external:perdure, Next.js: serverExternalPackages: ['perdure']) and have it in node_modules.",
    ];
  }
  if (!PLATFORMS.includes(platform))
    return ['this platform is not supported.', `The supported platforms are ${PLATFORMS.join(', ')}.`];
  const name = `perdure-${platform}`;
  const refusal = messagesOf(cause).find((message) => !message.startsWith('Cannot find '));
  if (refusal !== undefined) return [`the system cannot load the file: ${refusal}`, adviceOn(refusal)];
  const others = PLATFORMS.filter(hasPackage).map((other) => `perdure-${other}`);
  if (others.length > 0) {
    const libc = platform.startsWith('linux') && others.some((other) => other.startsWith('perdure-linux'));
    return [
      `the package ${name} is not installed, but ${others.join(' and ')} is: ` +
        `node_modules was made on another platform${libc ? ' (gnu is for glibc, as on Debian; musl for Alpine)' : ''}.`,
      REINSTALL,
    ];
  }
  return [
    `the package ${name} is not installed. It is an optional dependency of perdure, which npm leaves out when it is ` +
      'told to (--omit=optional, --no-optional), or when package-lock.json was written on another platform by an npm ' +
      'that forgot the others.',
    'Install without these options; if that does not help, delete node_modules and package-lock.json and install ' +
      `again. Or name it yourself: npm install ${name}`,
  ];
}

/** Returns advice for the message of a system that does not load a shared library. */
function adviceOn(message: string): string {
  const named = process.env.NAPI_RS_NATIVE_LIBRARY_PATH;
  if (named) return `NAPI_RS_NATIVE_LIBRARY_PATH names ${named}: unset it, or set it to an addon of this platform.`;
  if (/GLIBC_/.test(message))
    return 'The C library of this system is older than the addon needs: use a newer system or image.';
  return `The file is damaged or of another platform. ${REINSTALL}`;
}

/** Returns this platform, as the packages name it. */
function platformHere(): string {
  const { platform, arch } = process;
  if (platform === 'linux') return `linux-${arch}-${hasGlibc() ? 'gnu' : 'musl'}`;
  return platform === 'win32' ? `win32-${arch}-msvc` : `${platform}-${arch}`;
}

function hasGlibc(): boolean {
  const { header } = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
  return header?.glibcVersionRuntime !== undefined;
}

/** Returns the messages of an error and its causes, outermost first. The loader keeps nothing else of its attempts. */
function messagesOf(error: unknown): string[] {
  const found: string[] = [];
  for (let at = error; at instanceof Error; at = at.cause) found.push(at.message);
  return found;
}
