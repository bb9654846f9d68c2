import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { PartSpec } from './part-spec.ts';
import { isSameProcess, startTimeOf, stopProcess, type ProcessIdentity } from './processes.ts';
import { isRecord, parseJson } from './untyped.ts';

interface PartRecord extends ProcessIdentity {
  readonly name: string;
  readonly stopSignal: NodeJS.Signals;
  readonly stopTimeoutMs: number;
  /** Its place in the order of starts: stopped in reverse. */
  readonly order: number;
}

/** Writes down a child process, so that it is recognised even when this supervisor is killed. */
export async function recordPart(
  folder: string,
  spec: PartSpec,
  running: { readonly pid: number; readonly order: number },
): Promise<ProcessIdentity | undefined> {
  const startedAt = await startTimeOf(running.pid);
  if (startedAt === undefined) return undefined;
  const { name, stopSignal, stopTimeoutMs } = spec;
  const record: PartRecord = { name, stopSignal, stopTimeoutMs, startedAt, ...running };
  const file = recordFile(folder, name);
  await writeFile(`${file}.new`, JSON.stringify(record), { mode: 0o600 });
  await rename(`${file}.new`, file);
  return { pid: running.pid, startedAt };
}

/** Forgets a child process that has ended. */
export async function forgetPart(folder: string, name: string): Promise<void> {
  await rm(recordFile(folder, name), { force: true });
}

/**
 * Stops what a killed supervisor left running, latest first. A process is touched only when its id and start
 * time are the recorded ones. Only the holder of the home's lock may call it. Returns the names of what it stopped.
 */
export async function stopOrphans(folder: string): Promise<string[]> {
  const records: PartRecord[] = [];
  for (const file of await readdir(folder).catch(() => [])) {
    const text = await readFile(path.join(folder, file), 'utf8').catch(() => '');
    const record = parseRecord(text);
    if (record !== undefined && (await isSameProcess(record))) records.push(record);
    else await rm(path.join(folder, file), { force: true });
  }
  records.sort((a, b) => b.order - a.order);
  for (const record of records) {
    await stopProcess(record, { signal: record.stopSignal, timeoutMs: record.stopTimeoutMs });
    await forgetPart(folder, record.name);
  }
  return records.map((record) => record.name);
}

function parseRecord(text: string): PartRecord | undefined {
  const value = parseJson(text);
  return isPartRecord(value) ? value : undefined;
}

function isPartRecord(value: unknown): value is PartRecord {
  if (!isRecord(value)) return false;
  const { pid, startedAt, name, stopSignal, stopTimeoutMs, order } = value;
  return (
    Number.isSafeInteger(pid) &&
    [startedAt, name, stopSignal].every((text) => typeof text === 'string') &&
    [stopTimeoutMs, order].every((number) => typeof number === 'number')
  );
}

function recordFile(folder: string, name: string): string {
  return path.join(folder, `${name}.json`);
}
