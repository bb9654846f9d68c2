import type { PartRequest } from './part-spec.ts';

/**
 * In what two requests for one part differ, as names of settings (never values: they may be secrets).
 * What the second leaves open (a port, the storage) fits whatever runs. Empty: they can share it.
 */
export function differences(
  running: PartRequest,
  asked: PartRequest,
  chosen: { readonly port?: number; readonly uiPort?: number; readonly secondPort?: number } = {},
): string[] {
  const different: string[] = [];
  if (asked.port !== undefined && asked.port !== (chosen.port ?? running.port))
    different.push('port');
  if (running.kind === 'temporal' && asked.kind === 'temporal') {
    if (asked.storage !== undefined && asked.storage !== (running.storage ?? 'normal')) {
      different.push('storage');
    }
    if (asked.uiPort !== undefined && asked.uiPort !== (chosen.uiPort ?? running.uiPort))
      different.push('uiPort');
  }
  if (running.kind === 'process' && asked.kind === 'process') {
    const second = asked.second?.port;
    if (second !== undefined && second !== (chosen.secondPort ?? running.second?.port))
      different.push('secondPort');
    for (const key of ['command', 'args', 'cwd', 'url', 'ready', 'calls'] as const) {
      if (JSON.stringify(running[key]) !== JSON.stringify(asked[key])) different.push(key);
    }
    const names = new Set([...Object.keys(running.env), ...Object.keys(asked.env)]);
    for (const name of [...names].sort()) {
      if (running.env[name] !== asked.env[name]) different.push(`env ${name}`);
    }
  }
  return different;
}
