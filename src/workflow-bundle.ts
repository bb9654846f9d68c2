import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, mkdir, readdir, readFile, rename } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { WorkflowBundlePath } from '@temporalio/worker';
import { z } from 'zod';

/** What a workflow bundle is made of: workflow code imports nothing else of ours. */
const SOURCES = ['workflows', 'domain'].map((folder) =>
  fileURLToPath(new URL(folder, import.meta.url)),
);
const BUNDLER = fileURLToPath(new URL('./workflow-bundle-main.ts', import.meta.url));
const SDK_MANIFEST = new URL('../node_modules/@temporalio/worker/package.json', import.meta.url);

const manifest = z.object({ version: z.string() });

/**
 * The workflow code as one file, made once per version of the sources and the SDK and kept in the
 * cache: bundling takes seconds of CPU and hundreds of megabytes that a worker should not carry. It is
 * made in a process of its own. Twice, or by two at once: the same bytes replace each other.
 */
export async function workflowBundle(cacheDir: string): Promise<WorkflowBundlePath> {
  const folder = path.join(cacheDir, 'workflows');
  const codePath = path.join(folder, `${await fingerprint()}.js`);
  const here = await access(codePath).then(
    () => true,
    () => false,
  );
  if (!here) {
    await mkdir(folder, { recursive: true });
    const unfinished = `${codePath}.${process.pid}`;
    await bundleInto(unfinished);
    await rename(unfinished, codePath);
  }
  return { codePath };
}

async function fingerprint(): Promise<string> {
  const hash = createHash('sha256');
  const sdk = manifest.parse(JSON.parse(await readFile(SDK_MANIFEST, 'utf8')));
  hash.update(`${sdk.version}\0${process.versions.node}\0`);
  for (const folder of SOURCES) {
    for (const name of (await readdir(folder)).sort()) {
      const source = await readFile(path.join(folder, name));
      hash.update(`${name}\0${source.length}\0`).update(source);
    }
  }
  return hash.digest('hex').slice(0, 32);
}

async function bundleInto(file: string): Promise<void> {
  const child = spawn(process.execPath, [BUNDLER, file], { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const exitCode = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  if (exitCode === 0) return;
  throw new Error(`the workflow code could not be bundled: ${said.trim().slice(-2_000)}`);
}
