import { condition, setHandler } from '@temporalio/workflow';
import { shardModeSignal, type ShardMode } from './messages.ts';

/** What a run lets its nodes do: start customers, wait, or start no more. */
export class NodeMode {
  mode: ShardMode;

  constructor(mode: ShardMode) {
    this.mode = mode;
  }

  /** Takes the run's orders. `passOn` tells the nodes below. Call before the first await. */
  follow(passOn: (mode: ShardMode) => Promise<void> = async () => {}): void {
    setHandler(shardModeSignal, async (mode) => {
      this.mode = mode;
      await passOn(mode);
    });
  }

  /** Waits while paused; false once stopped. */
  async mayStart(): Promise<boolean> {
    await condition(() => this.mode !== 'paused');
    return this.mode === 'running';
  }
}
