import type { Socket } from 'node:net';
import type { PartRequest, PartStatus, StackEndpoints } from './part-spec.ts';
import { isRecord, parseJson } from './untyped.ts';

/** Raised whenever a message changes its meaning: an older supervisor may still be running. */
export const PROTOCOL_VERSION = 2;

/** A line is bounded, so that a stray client cannot fill the memory. */
const LINE_MAX_BYTES = 4_000_000;

/** What a command sends. Its open connection is its lease; it ends with the connection. */
export type ClientMessage =
  | {
      readonly id: number;
      readonly ask: 'ensure';
      readonly parts: readonly PartRequest[];
      /** The asking command, to be named to others. */
      readonly pid: number;
    }
  | { readonly id: number; readonly ask: 'status' }
  | { readonly id: number; readonly ask: 'release' };

/** What the supervisor sends. */
export type SupervisorMessage =
  | { readonly kind: 'hello'; readonly pid: number; readonly protocol: number }
  | { readonly kind: 'progress'; readonly message: string }
  | {
      readonly kind: 'part';
      readonly event: 'restarted' | 'failed';
      readonly name: string;
      readonly message: string;
    }
  | { readonly kind: 'answer'; readonly id: number; readonly answer: StackAnswer }
  | { readonly kind: 'refusal'; readonly id: number; readonly message: string };

export interface StackAnswer {
  readonly endpoints: StackEndpoints;
  readonly parts: readonly PartStatus[];
  /** Whether the supervisor goes away now (answer to release). */
  readonly ending: boolean;
}

/** Writes one message as one line; a peer that is gone is no error here. */
export function send(socket: Socket, message: ClientMessage | SupervisorMessage): void {
  if (!socket.destroyed && socket.writable) socket.write(`${JSON.stringify(message)}\n`);
}

/** Calls back with every message that arrives; what is not a message closes the connection. */
export function onMessages<Message>(
  socket: Socket,
  isMessage: (value: unknown) => value is Message,
  callback: (message: Message) => void,
): void {
  let rest = '';
  socket.setEncoding('utf8');
  socket.on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > LINE_MAX_BYTES) socket.destroy(new Error('a message is too long'));
    for (const line of lines) {
      const message = parseJson(line);
      if (!isMessage(message)) {
        socket.destroy(new Error('not a message'));
        return;
      }
      callback(message);
    }
  });
}

/** Looks at the outline only: both ends are the same version, and the socket is closed to other users. */
export function isClientMessage(value: unknown): value is ClientMessage {
  if (!isRecord(value) || typeof value['id'] !== 'number') return false;
  return value['ask'] === 'ensure'
    ? Array.isArray(value['parts'])
    : value['ask'] === 'status' || value['ask'] === 'release';
}

/** Looks at the outline only, as isClientMessage does. */
export function isSupervisorMessage(value: unknown): value is SupervisorMessage {
  const kinds = ['hello', 'progress', 'part', 'answer', 'refusal'];
  return isRecord(value) && typeof value['kind'] === 'string' && kinds.includes(value['kind']);
}
