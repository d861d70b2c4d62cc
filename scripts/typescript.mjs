// Lets Node run TypeScript sources as they are: `node --import ./scripts/typescript.mjs program.ts`. A Node that does
// so by itself needs none of this. An older one is given a loader that leaves the types out, by the compiler that
// checks them elsewhere.

import { readFile } from 'node:fs/promises';
import { register } from 'node:module';
import { isMainThread } from 'node:worker_threads';

if (isMainThread && !process.features.typescript) register(import.meta.url);

export async function load(url, context, next) {
  if (!url.endsWith('.ts')) return next(url, context);
  const { default: ts } = await import('typescript');
  const text = await readFile(new URL(url), 'utf8');
  const compilerOptions = {
    target: ts.ScriptTarget.ES2023,
    module: ts.ModuleKind.ESNext,
    verbatimModuleSyntax: true,
    inlineSourceMap: true,
  };
  return {
    format: 'module',
    shortCircuit: true,
    source: ts.transpileModule(text, { compilerOptions, fileName: url }).outputText,
  };
}
