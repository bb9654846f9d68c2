import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const MAIN = fileURLToPath(new URL('./main.ts', import.meta.url));

interface Summary {
  readonly seeds: number;
  readonly violations: number;
  readonly virtualDays: number;
  readonly verdict: string;
  readonly neverSeen: readonly string[];
  readonly charges: number;
  readonly failingSeeds: readonly number[];
}

interface Played {
  readonly exitCode: number | null;
  readonly text: string;
  readonly summary: Summary;
}

/** In a process of its own: the simulation replaces the clocks and timers of whatever it runs in. */
async function play(...args: string[]): Promise<Played> {
  const child = spawn(process.execPath, [MAIN, '--json', ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  const exitCode = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  const last = text.trimEnd().split('\n').at(-1) ?? '';
  return { exitCode, text, summary: JSON.parse(last) };
}

test('200 seeds break no invariant, and every fault, state and answer is seen', async () => {
  const { exitCode, text, summary } = await play('--seeds', '200');
  if (summary.verdict !== 'pass') process.stderr.write(text);
  expect(summary).toMatchObject({
    seeds: 200,
    violations: 0,
    verdict: 'pass',
    neverSeen: [],
    failingSeeds: [],
  });
  expect(summary.virtualDays).toBeGreaterThan(100);
  expect(summary.charges).toBeGreaterThan(100);
  expect(exitCode).toBe(0);
});

test('the same seed gives the same timeline, whatever was played before it', async () => {
  const [alone, after] = await Promise.all([
    play('--seed', '7', '--seeds', '1', '--trace', '--hashes'),
    play('--seed', '5', '--seeds', '3', '--hashes'),
  ]);
  const hashOf = ({ text }: Played): string | undefined => /seed 7 ([0-9a-f]+)/.exec(text)?.[1];
  expect(hashOf(alone)).toMatch(/^[0-9a-f]{16}$/);
  expect(hashOf(after)).toBe(hashOf(alone));
  expect(alone.text.split('\n').length).toBeGreaterThan(30);
});

test('a planted key per send fails at once, and the failing plan shrinks to one customer', async () => {
  const args = ['--seeds', '5', '--stop-at-first', '--plant', 'keyPerSend'];
  const { exitCode, text, summary } = await play(...args);
  expect(exitCode).toBe(1);
  expect(summary.verdict).toBe('fail');
  expect(text).toContain('I3: ');
  expect(text).toMatch(/again: npm run simulate -- --seed \d+ --seeds 1 --trace/);
  const smallest = text.slice(text.indexOf('the smallest plan'));
  expect(smallest.match(/\{"customer":/g)).toHaveLength(1);
  expect(smallest.match(/\{"fault":/g)).toBeNull();
});

test('a planted decline for a lost reply is found, although a later look would mend it', async () => {
  const args = ['--seed', '55', '--seeds', '60', '--stop-at-first'];
  const { exitCode, text, summary } = await play(...args, '--plant', 'lostMeansDeclined');
  expect(exitCode).toBe(1);
  expect(summary.violations).toBeGreaterThan(0);
  expect(text).toMatch(/I4: c\d became declined after Stripe had charged it/);
});
