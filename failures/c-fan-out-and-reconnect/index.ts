import type { Exhibit } from '../harness/exhibit.ts';
import { chargeOnConnect } from './14-charge-on-connect/exhibit.ts';
import { reconnectReplaysCommands } from './15-reconnect-replays-commands/exhibit.ts';
import { groupRetried } from './16-group-retried/exhibit.ts';
import { drainFiresTrigger } from './17-drain-fires-trigger/exhibit.ts';
import { timerPerConnection } from './18-timer-per-connection/exhibit.ts';

/** Fan-out and reconnect: triggers that come once per connection, per session, per group or per event. */
export const fanOutAndReconnect: readonly Exhibit[] = [
  chargeOnConnect,
  reconnectReplaysCommands,
  groupRetried,
  drainFiresTrigger,
  timerPerConnection,
];
