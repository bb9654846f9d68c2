import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connectSupervisor } from '../../../src/embedded/supervisor-start.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'chargeonce-socket-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

describe('the socket of a home', () => {
  it('is nobody there when it does not exist', async () => {
    expect(await connectSupervisor(path.join(folder, 'none.sock'))).toBeUndefined();
  });

  // Only root can give a file away; the check itself is the same for everybody.
  it.runIf(process.getuid?.() === 0)('is refused when another user made it', async () => {
    const socket = path.join(folder, 'theirs.sock');
    await writeFile(socket, '');
    await chown(socket, 65_534, 65_534);
    await expect(connectSupervisor(socket)).rejects.toThrow('belongs to another user (uid 65534)');
  });
});
