// Run as a process of its own, so that a download that hangs can be ended: <binary> <version> <folder>.
import { TestWorkflowEnvironment } from '@temporalio/testing';

const [binary, version, downloadDir] = process.argv.slice(2);
if (version === undefined || downloadDir === undefined)
  throw new Error('three arguments are needed');
const executable = { type: 'cached-download' as const, version: `v${version}`, downloadDir };

try {
  const environment =
    binary === 'temporal'
      ? await TestWorkflowEnvironment.createLocal({ server: { executable } })
      : await TestWorkflowEnvironment.createTimeSkipping({ server: { executable } });
  await environment.teardown();
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
