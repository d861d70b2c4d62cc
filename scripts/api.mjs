// Writes the report of each entry's public types to api/, so that a review sees each change of them. It reads the
// declarations in dist/.

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Extractor, ExtractorConfig } from '@microsoft/api-extractor';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = join(root, 'api');

/**
 * Writes or compares the reports. Returns the problems, each as a sentence. After a write there are only those of the
 * compiler.
 *
 * @param {{ write: boolean }} how
 * @returns {string[]}
 */
export function reports({ write }) {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const entries = Object.entries(exports).flatMap(([entry, { types }]) =>
    types === undefined ? [] : [[`perdure${entry.slice(1)}`.replaceAll('/', '-'), types]],
  );
  const work = mkdtempSync(join(tmpdir(), 'perdure-api-'));
  try {
    if (write) {
      rmSync(folder, { recursive: true, force: true });
      mkdirSync(folder);
    }
    const wrong = entries.flatMap(([name, types]) => problemsOf(name, types, work, write));
    const known = entries.map(([name]) => `${name}.api.md`);
    const gone = readdirSync(folder).filter((file) => !known.includes(file));
    return [...wrong, ...gone.map((file) => `api/${file} is of an entry that is gone`)];
  } finally {
    rmSync(work, { recursive: true });
  }
}

function problemsOf(name, types, work, write) {
  const problems = [];
  const config = ExtractorConfig.prepare({
    configObject: {
      projectFolder: root,
      mainEntryPointFilePath: join(root, types),
      newlineKind: 'lf',
      compiler: { tsconfigFilePath: join(root, 'tsconfig.json') },
      apiReport: { enabled: true, reportFileName: `${name}.api.md`, reportFolder: folder, reportTempFolder: work },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      messages: {
        compilerMessageReporting: { default: { logLevel: 'error' } },
        // The form of comments is no part of the types, and a name that an entry refers to may be exported by another
        // one.
        extractorMessageReporting: { default: { logLevel: 'none' } },
        tsdocMessageReporting: { default: { logLevel: 'none' } },
      },
    },
    configObjectFullPath: join(root, 'api-extractor.json'),
    packageJsonFullPath: join(root, 'package.json'),
  });
  const { apiReportChanged } = Extractor.invoke(config, {
    localBuild: write,
    messageCallback: (message) => {
      message.handled = true;
      if (message.logLevel === 'error') problems.push(message.formatMessageWithLocation(root));
    },
  });
  if (apiReportChanged && !write)
    problems.push(`api/${name}.api.md is not what ${types} declares: npm run api, and look at what has changed`);
  return problems;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const problems = reports({ write: true });
  if (problems.length > 0) {
    console.error(problems.join('\n'));
    process.exitCode = 1;
  }
}
