import { readFile } from 'node:fs/promises';
import { InvalidArgumentError, type Command } from '@commander-js/extra-typings';
import { startSimulator, type FaultPlan, type SimulatorOptions } from '../../simulator/index.ts';
import { CommandError, EXIT } from '../exit-codes.ts';
import { processOutput } from '../output.ts';
import { untilInterrupted, type Shell } from '../shell.ts';

export function registerSimulator(program: Command, shell: Shell): void {
  program
    .command('simulator')
    .description('run the Stripe simulator until Ctrl-C')
    .option('--port <port>', 'port; 0 takes any free one', number, 12_111)
    .option('--host <host>', 'address to listen on', '127.0.0.1')
    .option('--state-dir <folder>', 'keep the state there; in memory without it')
    .option('--latency <ms>', 'added to each API call', number, 0)
    .option(
      '--endpoint-rate <n>',
      'requests per second and endpoint, 0 for no limit (default: 25)',
      number,
    )
    .option(
      '--account-rate <n>',
      'requests per second and account, 0 for no limit (default: 100)',
      number,
    )
    .option(
      '--faults <file>',
      'JSON fault plan: {"seed": 1, "rules": [{"id", "endpoint", "kind", "rate"}]}',
    )
    .option('--webhook-url <url>', 'where events are sent')
    .option('--webhook-secret <secret>', 'signs the events')
    .option('--json', 'print the address as one JSON object')
    .action(async (options) => {
      const output = processOutput(options.json === true);
      const faults =
        options.faults === undefined ? {} : { faults: await readFaults(options.faults) };
      const webhook = webhookOf(options.webhookUrl, options.webhookSecret);
      const simulatorOptions: SimulatorOptions = {
        port: options.port,
        host: options.host,
        latencyMs: options.latency,
        ...faults,
        ...webhook,
        ...(options.stateDir === undefined ? {} : { stateDir: options.stateDir }),
        ...(options.endpointRate === undefined ? {} : { endpointRate: options.endpointRate }),
        ...(options.accountRate === undefined ? {} : { accountRate: options.accountRate }),
      };
      const simulator = await start(simulatorOptions);
      output.result({ url: simulator.url, port: simulator.port });
      output.line(
        `Stripe simulator at ${simulator.url} (STRIPE_API_BASE=${simulator.url} STRIPE_API_KEY=sk_test_any)`,
      );
      await untilInterrupted(shell);
      await simulator.close();
    });
}

async function start(options: SimulatorOptions) {
  try {
    return await startSimulator(options);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') {
      throw new CommandError(
        EXIT.unavailable,
        `port ${options.port} is taken: choose another with --port, or --port 0 for any`,
        error,
      );
    }
    throw error;
  }
}

async function readFaults(file: string): Promise<FaultPlan> {
  try {
    // The simulator checks the plan rule by rule when it starts.
    const plan: FaultPlan = JSON.parse(await readFile(file, 'utf8'));
    return plan;
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error);
    throw new CommandError(EXIT.usage, `${file} is no fault plan: ${said}`, error);
  }
}

function webhookOf(url: string | undefined, secret: string | undefined) {
  if (url === undefined && secret === undefined) return {};
  if (url === undefined || secret === undefined) {
    throw new CommandError(EXIT.usage, '--webhook-url and --webhook-secret go together');
  }
  return { webhook: { url, secret } };
}

function number(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value) && value >= 0) return value;
  throw new InvalidArgumentError('a number, zero or more');
}
