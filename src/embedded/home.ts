import { createHash } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';

/** Linux allows 108 bytes for the path of a Unix socket, macOS 104, the closing zero included. */
const SOCKET_PATH_MAX_BYTES = 103;

/** Where the embedded stack keeps what, below one state home. */
export interface HomeLayout {
  readonly home: string;
  readonly socket: string;
  readonly lock: string;
  readonly logs: string;
  /** One file per running child process, so that the next supervisor recognises what a killed one left. */
  readonly parts: string;
  readonly ports: string;
  readonly postgres: string;
  readonly temporal: string;
}

/** The layout below a home. Pure: creates nothing. */
export function homeLayout(home: string): HomeLayout {
  const absolute = path.resolve(home);
  return {
    home: absolute,
    socket: socketPath(absolute),
    lock: path.join(absolute, 'supervisor.lock'),
    logs: path.join(absolute, 'logs'),
    parts: path.join(absolute, 'parts'),
    ports: path.join(absolute, 'ports.json'),
    postgres: path.join(absolute, 'postgres'),
    temporal: path.join(absolute, 'temporal'),
  };
}

function socketPath(home: string): string {
  const inside = path.join(home, 'supervisor.sock');
  if (Buffer.byteLength(inside) <= SOCKET_PATH_MAX_BYTES) return inside;
  const hash = createHash('sha256').update(home).digest('hex').slice(0, 24);
  // Not os.tmpdir(): commands with different TMPDIR must find the same socket.
  return path.join('/tmp', `chargeonce-${process.getuid?.() ?? 0}-${hash}.sock`);
}

/** Creates the folders of a home; called again it does nothing. */
export async function createHome(layout: HomeLayout): Promise<void> {
  await mkdir(layout.home, { recursive: true });
  // Not the home itself: as root, PostgreSQL runs as another user who has to pass through it.
  for (const folder of [layout.logs, layout.parts, layout.temporal]) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
  }
}
