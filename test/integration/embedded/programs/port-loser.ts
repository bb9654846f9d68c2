// Loses its port to a stranger the first time it starts, and is slow to notice; the next time it serves.
import { spawn } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const [port, marker] = process.argv.slice(2);
if (port === undefined || marker === undefined) throw new Error('usage: port-loser PORT MARKER');
const server = path.join(import.meta.dirname, 'echo-server.ts');

if (existsSync(marker)) await import('./echo-server.ts');
else {
  const stranger = spawn(process.execPath, [server, port], {
    detached: true,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  writeFileSync(marker, String(stranger.pid));
  setTimeout(() => process.exit(1), 60_000);
}
