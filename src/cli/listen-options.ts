import { InvalidArgumentError } from '@commander-js/extra-typings';

const LOOPBACK = ['127.0.0.1', '::1', 'localhost'];

/** Whether only this machine reaches what listens there. */
export function isLoopback(host: string): boolean {
  return LOOPBACK.includes(host);
}

/** A port as typed on the command line; 0 takes any free one. */
export function port(text: string): number {
  const value = Number(text);
  if (/^\d{1,5}$/.test(text) && value <= 65_535) return value;
  throw new InvalidArgumentError('a port, 0 to 65535');
}

/** Why an address cannot be listened on: somebody has the port, or it is none of ours; null for any other error. */
export function listenProblem(error: unknown): { kind: 'taken' | 'unusable'; code: string } | null {
  const code = error instanceof Error && 'code' in error ? error.code : null;
  if (code === 'EADDRINUSE') return { kind: 'taken', code };
  if (code === 'EADDRNOTAVAIL' || code === 'EACCES' || code === 'ENOTFOUND')
    return { kind: 'unusable', code };
  return null;
}
