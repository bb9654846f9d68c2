import { DatabaseSync } from 'node:sqlite';
import { isRecord } from './untyped.ts';

const SQLITE_BUSY = 5;

export interface HomeLock {
  release(): void;
}

/**
 * Takes the lock of a state home, or answers undefined when another process has it. It is a lock of the kernel
 * (through SQLite, the one way Node offers without native code), so a killed holder leaves nothing stale behind.
 */
export function tryLock(file: string): HomeLock | undefined {
  const database = new DatabaseSync(file, { timeout: 0 });
  try {
    database.exec('begin exclusive');
  } catch (error) {
    database.close();
    if (isRecord(error) && error['errcode'] === SQLITE_BUSY) return undefined;
    throw error;
  }
  return { release: () => database.close() };
}
