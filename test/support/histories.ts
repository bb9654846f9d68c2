import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Client } from '@temporalio/client';
import { temporal } from '@temporalio/proto';

const { History } = temporal.api.history.v1;
type History = temporal.api.history.v1.IHistory;

const FOLDER = fileURLToPath(new URL('../workflow/histories', import.meta.url));

/** A stored history: what a worker of an earlier build did, for later builds to replay. */
export interface StoredHistory {
  readonly name: string;
  readonly text: string;
}

/** The history in the form that a replaying worker takes. */
export function parseHistory(text: string): History {
  return History.fromObject(JSON.parse(text));
}

export async function readHistories(): Promise<readonly StoredHistory[]> {
  const files = (await readdir(FOLDER)).filter((file) => file.endsWith('.json')).sort();
  return Promise.all(
    files.map(async (file) => ({
      name: file.slice(0, -'.json'.length),
      text: await readFile(`${FOLDER}/${file}`, 'utf8'),
    })),
  );
}

/**
 * Fetches one Temporal run's history and stores it, without what is of this machine only. One that is
 * stored already stays: it is what an earlier build did, which later builds must still replay.
 */
export async function storeHistory(
  client: Client,
  of: { readonly name: string; readonly workflowId: string; readonly runId?: string },
): Promise<void> {
  const file = `${FOLDER}/${of.name}.json`;
  if (existsSync(file)) return;
  const history = await client.workflow.getHandle(of.workflowId, of.runId).fetchHistory();
  // The SDK's own historyToJSON fails where npm installs protobufjs more than once.
  const json = History.toObject(History.fromObject(history), {
    longs: String,
    enums: String,
    bytes: String,
  });
  await mkdir(FOLDER, { recursive: true });
  await writeFile(file, `${JSON.stringify(json, withoutMachine, 1)}\n`);
}

/** Drops stack traces and process identities: replay reads neither. */
function withoutMachine(name: string, value: unknown): unknown {
  if (name === 'stackTrace') return '';
  // Sticky queues are named after their worker as well.
  const ofWorker = typeof value === 'string' && /^\d+@\S+$/.test(value);
  return name === 'identity' || ofWorker ? 'worker@test' : value;
}
