// The supervisor as a process of its own: <home> <base environment as JSON>. Its output is its log.
import { runSupervisor } from './supervisor.ts';
import { SUPERVISOR_BUSY_EXIT } from './supervisor-start.ts';
import { parseJson, textsOf } from './untyped.ts';

const [home, env] = process.argv.slice(2);
if (home === undefined || env === undefined) throw new Error('two arguments are needed');

const log = (message: string) => {
  process.stderr.write(`${new Date().toISOString()} ${process.pid} ${message}\n`);
};
const stop = new AbortController();
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
  process.on(signal, () => {
    log(`${signal}: stopping`);
    stop.abort();
  });
}
process.on('uncaughtException', (error) => {
  log(`stopping after an error of its own: ${error.stack ?? error.message}`);
  process.exitCode = 70;
  stop.abort();
});

const outcome = await runSupervisor({
  home,
  env: textsOf(parseJson(env)),
  log,
  stop: stop.signal,
});
process.exit(outcome === 'busy' ? SUPERVISOR_BUSY_EXIT : (process.exitCode ?? 0));
