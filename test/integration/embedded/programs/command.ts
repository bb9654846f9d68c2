// A command that leases parts: <home> <parts as JSON>. Says what it got as JSON lines; ends when its input does.
import { leaseStack } from '../../../../src/embedded/stack.ts';
import { defaultCacheDir } from '../../../../src/embedded/temporal-binaries.ts';

const [home, parts] = process.argv.slice(2);
if (home === undefined || parts === undefined) throw new Error('two arguments are needed');
const say = (what: object) => process.stdout.write(`${JSON.stringify(what)}\n`);

try {
  const lease = await leaseStack({
    home,
    cacheDir: defaultCacheDir(process.env),
    env: process.env,
    sources: ['wheel'],
    parts: JSON.parse(parts),
    onProgress: (message) => say({ progress: message }),
  });
  say({ endpoints: lease.endpoints, parts: await lease.status() });
  process.stdin.resume();
  process.stdin.once('end', () => {
    void lease.release().then(() => say({ released: true }));
  });
} catch (error) {
  say({ error: error instanceof Error ? error.message : String(error) });
  process.exitCode = 1;
}
