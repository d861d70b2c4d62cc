// Writes the report of each entry's public types to api/, where a change of them is seen in review. It reads the declarations in dist/.

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Extractor, ExtractorConfig } from '@microsoft/api-extractor';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = join(root, 'api');

/**
 * Reports that are not as they should be, each as a sentence; after a write there is none.
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
        // How comments are written is no part of the types; and what an entry refers to another one exports.
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
