import type { Socket } from 'node:net';
import { isSupervisorMessage, onMessages, PROTOCOL_VERSION, send } from './protocol.ts';
import type { ClientMessage, StackAnswer, SupervisorMessage } from './protocol.ts';

/** It greets at once; on a machine that swaps that can take seconds. */
const GREETING_TIMEOUT_MS = 15_000;

type Without<Message, Key extends PropertyKey> = Message extends unknown
  ? Omit<Message, Key>
  : never;
type Question = Without<ClientMessage, 'id'>;

export interface SessionListeners {
  readonly onProgress?: ((message: string) => void) | undefined;
  /** Told when a part was started again or given up. */
  readonly onPart?:
    | ((event: { event: 'restarted' | 'failed'; name: string; message: string }) => void)
    | undefined;
  /** Told when the supervisor went away while we hold a lease (somebody killed it). */
  readonly onLost?: (() => void) | undefined;
}

/** One command's connection to the supervisor: as long as it is open, the command holds its parts. */
export class Session {
  readonly #socket: Socket;
  readonly #listeners: SessionListeners;
  readonly #pending = new Map<number, PromiseWithResolvers<StackAnswer>>();
  readonly #greeting = Promise.withResolvers<'welcome' | 'turned away'>();
  readonly #closed = Promise.withResolvers<void>();
  #supervisorPid: number | undefined;
  #leaving = false;
  #lost = false;
  #lastId = 0;

  private constructor(socket: Socket, listeners: SessionListeners) {
    this.#socket = socket;
    this.#listeners = listeners;
    socket.on('error', () => undefined);
    socket.on('close', () => this.#onClose());
    onMessages(socket, isSupervisorMessage, (message) => this.#onMessage(message));
  }

  /** Waits for the greeting; undefined when the supervisor is on its way out and turns us away. */
  static async open(socket: Socket, listeners: SessionListeners): Promise<Session | undefined> {
    const session = new Session(socket, listeners);
    const silent = setTimeout(() => {
      session.#refuse(
        'the supervisor of the embedded parts does not answer; is it stopped or overloaded?',
      );
    }, GREETING_TIMEOUT_MS);
    try {
      return (await session.#greeting.promise) === 'welcome' ? session : undefined;
    } finally {
      clearTimeout(silent);
    }
  }

  get supervisorPid(): number | undefined {
    return this.#supervisorPid;
  }

  /** Whether the connection ended without our wish. */
  get lost(): boolean {
    return this.#lost;
  }

  /** Settled when the connection is over. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  /** Asks the supervisor; throws what it refuses with, and when it goes away before it has answered. */
  ask(question: Question): Promise<StackAnswer> {
    if (question.ask === 'release') this.#leaving = true;
    const waiting = Promise.withResolvers<StackAnswer>();
    if (this.#socket.destroyed) waiting.reject(lostError());
    else {
      this.#lastId += 1;
      this.#pending.set(this.#lastId, waiting);
      send(this.#socket, { ...question, id: this.#lastId });
    }
    return waiting.promise;
  }

  close(): void {
    this.#leaving = true;
    this.#socket.destroy();
  }

  #refuse(why: string): void {
    this.#greeting.reject(new Error(why));
    this.close();
  }

  #onMessage(message: SupervisorMessage): void {
    switch (message.kind) {
      case 'hello':
        this.#supervisorPid = message.pid;
        if (message.protocol === PROTOCOL_VERSION) this.#greeting.resolve('welcome');
        else {
          this.#refuse(
            `the embedded parts of this home are held by another version of chargeonce (process ${message.pid})`,
          );
        }
        break;
      case 'progress':
        this.#listeners.onProgress?.(message.message);
        break;
      case 'part':
        this.#listeners.onPart?.(message);
        break;
      case 'answer':
        this.#settle(message.id)?.resolve(message.answer);
        break;
      case 'refusal':
        this.#settle(message.id)?.reject(new Error(message.message));
        break;
      default:
        message satisfies never;
    }
  }

  #settle(id: number): PromiseWithResolvers<StackAnswer> | undefined {
    const waiting = this.#pending.get(id);
    this.#pending.delete(id);
    return waiting;
  }

  #onClose(): void {
    this.#lost = this.#supervisorPid !== undefined && !this.#leaving;
    for (const waiting of this.#pending.values()) waiting.reject(lostError());
    this.#pending.clear();
    this.#greeting.resolve('turned away');
    this.#closed.resolve();
    if (this.#lost) this.#listeners.onLost?.();
  }
}

function lostError(): Error {
  return new Error(
    'the supervisor of the embedded parts is gone (was it killed?); start the command again, its state is kept',
  );
}
