// Bundles the workflow code into the file named by the first argument; see workflow-bundle.ts.
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';

const [, , file] = process.argv;
if (file === undefined) throw new Error('usage: workflow-bundle-main.ts FILE');
const { code } = await bundleWorkflowCode({
  workflowsPath: fileURLToPath(new URL('./workflows/index.ts', import.meta.url)),
  logger: new DefaultLogger('WARN'),
});
await writeFile(file, code);
