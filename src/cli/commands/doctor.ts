import type { Command } from '@commander-js/extra-typings';
import { RunClient } from '../../client.ts';
import { loadConfig, ConfigError } from '../../config.ts';
import { checkPostgres, checkStripe, checkTemporal, checkTools, type Check } from '../health.ts';
import { EXIT } from '../exit-codes.ts';
import { green, processOutput, red, table, yellow } from '../output.ts';
import { temporalAccess } from '../platform.ts';
import type { Shell } from '../shell.ts';
import { checkVault } from '../vault-check.ts';
import { checkWebhooks } from '../webhook-check.ts';

export function registerDoctor(program: Command, shell: Shell): void {
  program
    .command('doctor')
    .description(
      'check configuration, tools and services, and say how to mend each; starts and changes nothing',
    )
    .option('--json', 'print the checks as one JSON object on the last line')
    .action(async (options) => {
      const output = processOutput(options.json === true);
      const checks = await examine(shell.env);
      const mark = { ok: green('ok'), warn: yellow('warn'), fail: red('fail') } as const;
      output.line(
        table(
          ['', 'check', 'found', 'what to do'],
          checks.map((check) => [mark[check.state], check.name, check.found, check.mend ?? '']),
        ),
      );
      const failed = checks.filter((check) => check.state === 'fail').length;
      output.result({ ok: failed === 0, checks });
      output.line(failed === 0 ? 'all that is needed is there' : `${failed} checks failed`);
      if (failed > 0) shell.exitCode = EXIT.failed;
    });
}

async function examine(env: NodeJS.ProcessEnv): Promise<readonly Check[]> {
  const checks: Check[] = [];
  try {
    const config = loadConfig(env);
    checks.push({
      name: 'configuration',
      state: 'ok',
      found: `${config.mode} mode, home ${config.CHARGEONCE_HOME}`,
    });
    checks.push(...(await checkTools(config, env)));
    checks.push(...(await checkPostgres(config)));
    checks.push(...(await checkStripe(config)), ...(await checkVault(config)));
    checks.push(...(await checkWebhooks(config)));
    checks.push(
      ...(await checkTemporal(config, temporalAccess(env), (access) => RunClient.connect(access))),
    );
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    for (const problem of error.problems) {
      checks.push({
        name: 'configuration',
        state: 'fail',
        found: problem,
        mend: 'see docs/operations.md, "Configuration"',
      });
    }
  }
  return checks;
}
