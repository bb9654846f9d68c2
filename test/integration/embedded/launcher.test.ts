import { spawn, type ChildProcess } from 'node:child_process';
import { chmod, cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

const LAUNCHER = fileURLToPath(new URL('../../../bin/chargeonce', import.meta.url));
const CLI = `
if (process.argv[2] === 'wait') {
  process.on('SIGINT', () => process.exit(42));
  setInterval(() => undefined, 1000);
  console.log('waiting', process.pid);
} else {
  console.log(JSON.stringify(process.argv.slice(2)) satisfies unknown);
  process.exitCode = 7;
}
`;

let root: string;
beforeEach(async () => {
  root = await mkdtemp(path.join(tmpdir(), 'chargeonce launcher-'));
  await cp(LAUNCHER, path.join(root, 'bin/chargeonce'));
  await mkdir(path.join(root, 'src'));
  await writeFile(path.join(root, 'src/cli.ts'), CLI);
  await writeFile(path.join(root, 'package.json'), '{"type":"module"}');
});
afterEach(async () => {
  await rm(root, { recursive: true, force: true });
});

async function installNode(): Promise<void> {
  const bin = path.join(root, 'node_modules/.bin');
  await mkdir(bin, { recursive: true });
  await symlink(process.execPath, path.join(bin, 'node'));
}

async function oldNode(): Promise<string> {
  const folder = path.join(root, 'old');
  await mkdir(folder);
  const file = path.join(folder, 'node');
  await writeFile(file, '#!/bin/sh\n[ "$1" = --version ] && echo v16.20.2 || exit 1\n');
  await chmod(file, 0o755);
  return `${folder}:/usr/bin:/bin`;
}

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function start(file: string, args: string[], PATH = '/usr/bin:/bin'): ChildProcess {
  return spawn(file, args, { env: { PATH }, stdio: ['ignore', 'pipe', 'pipe'] });
}

function end(child: ChildProcess): Promise<Ended> {
  const text = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.on('data', (chunk: Buffer) => {
      text[name] += chunk.toString();
    });
  }
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, ...text })));
}

describe('bin/chargeonce', () => {
  test('runs the CLI with the Node of node_modules and its arguments, and ends with its exit code', async () => {
    await installNode();
    const path16 = await oldNode();
    const ended = await end(start(path.join(root, 'bin/chargeonce'), ['run', 'a b', ''], path16));
    expect(ended).toEqual({ code: 7, stdout: '["run","a b",""]\n', stderr: '' });
  });

  test('finds its project through links to it', async () => {
    await installNode();
    await mkdir(path.join(root, 'links'));
    await symlink('../bin/chargeonce', path.join(root, 'links/relative'));
    await symlink(path.join(root, 'links/relative'), path.join(root, 'links/absolute'));
    expect((await end(start(path.join(root, 'links/absolute'), []))).code).toBe(7);
  });

  test('is replaced by Node, so that a signal sent to it reaches the CLI', async () => {
    await installNode();
    const child = start(path.join(root, 'bin/chargeonce'), ['wait']);
    const ended = end(child);
    await new Promise((resolve) => child.stdout?.once('data', resolve));
    child.kill('SIGINT');
    expect(await ended).toMatchObject({ code: 42, stdout: `waiting ${child.pid}\n` });
  });

  test('says which Node it found and what to do when that one is too old', async () => {
    await mkdir(path.join(root, 'node_modules'));
    const ended = await end(start(path.join(root, 'bin/chargeonce'), [], await oldNode()));
    expect(ended.code).toBe(69);
    expect(ended.stderr).toContain(`needs Node 22.18 or newer; ${root}/old/node is v16.20.2`);
    expect(ended.stderr).toContain('npm ci');
  });

  test('says to install the dependencies when there are none', async () => {
    const ended = await end(start(path.join(root, 'bin/chargeonce'), []));
    expect(ended.code).toBe(69);
    expect(ended.stderr).toContain(`(cd "${root}" && npm ci)`);
  });
});
