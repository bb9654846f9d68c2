import type { StoredResponse } from '../../src/http/idempotency/index.ts';
import { RIGHT_RULES, type MemoryRules } from './idempotent-memory-store.ts';

const asText = (response: StoredResponse): StoredResponse => ({
  ...response,
  body: response.body && Buffer.from(response.body.toString()),
});

/** One rule of a store that is wrong, and the conformance check that has to see it. */
export const BROKEN_RULES: readonly (readonly [
  bug: string,
  rules: Partial<MemoryRules>,
  seenBy: string,
])[] = [
  [
    'takes an answer from whoever gives one',
    { mayWrite: (record) => record.response === null },
    'refuses what a holder writes whose key was taken over',
  ],
  [
    'looks at the holder of an answer, not at its fence',
    { mayWrite: (record, { holder }) => record.response === null && record.holder === holder },
    'refuses what is written with the fence of one holder and the name of another',
  ],
  [
    'keeps the last answer, not the first',
    { mayWrite: ({ holder, fence }, hold) => holder === hold.holder && fence === hold.fence },
    'says stored to the holder that says it again, and keeps what it said first',
  ],
  [
    'has one fence for all holders',
    { nextFence: (record) => record.fence },
    'lets one of many take over a key whose holder is gone, with a greater fence',
  ],
  [
    'takes over from a holder that is there',
    { mayTakeOver: (_record, { takeover }) => takeover === 'rerun' },
    'gives a key to the first who claims it, and says in flight to everybody else',
  ],
  [
    'takes over where the handler may not run again',
    { mayTakeOver: ({ leaseUntilMs }, _claim, now) => leaseUntilMs <= now },
    'leaves a key whose handler may not run again to whoever looks, and lists it',
  ],
  [
    'never takes over',
    { mayTakeOver: () => false },
    'lets one of many take over a key whose holder is gone, with a greater fence',
  ],
  [
    'compares requests only with a stored response',
    {
      isSameRequest: (record, fingerprint) =>
        record.response === null || RIGHT_RULES.isSameRequest(record, fingerprint),
    },
    'refuses another request under the key while it is in flight, and takes nothing',
  ],
  [
    'compares no requests when it takes over',
    {
      isSameRequest: (record, fingerprint) =>
        (record.response === null && record.leaseUntilMs <= performance.now()) ||
        RIGHT_RULES.isSameRequest(record, fingerprint),
    },
    'refuses another request when the holder is gone, although it may run again',
  ],
  [
    'has one key for all principals',
    { nameOf: ({ endpoint, key }) => JSON.stringify([endpoint, key]) },
    'tells principals, endpoints and keys apart, wherever one ends and the next begins',
  ],
  [
    'joins principal, endpoint and key',
    { nameOf: ({ principal, endpoint, key }) => `${principal}${endpoint}${key}` },
    'tells principals, endpoints and keys apart, wherever one ends and the next begins',
  ],
  [
    'gives back what another one holds',
    { mayGiveBack: (record) => record.response === null },
    'gives nothing back to who does not hold it, or has answered',
  ],
  [
    'gives back what is answered',
    { mayGiveBack: (record, holder) => record.holder === holder },
    'gives nothing back to who does not hold it, or has answered',
  ],
  [
    'purges keys whose holder is gone',
    { mayPurge: (record, now) => Math.max(record.expiresAtMs, record.leaseUntilMs) <= now },
    'purges responses whose time is over, no more than asked for, and nothing else',
  ],
  [
    'purges responses before their time',
    { mayPurge: (record) => record.response !== null },
    'purges responses whose time is over, no more than asked for, and nothing else',
  ],
  [
    'answers for ever',
    { isOver: () => false },
    'forgets a response when its time is over: then the key is new, for any request',
  ],
  [
    'resolves what is held',
    { mayResolve: (record) => record.response === null },
    'resolves nothing that is unknown, held, held again or stored',
  ],
  [
    'keeps a body as text',
    { stored: asText },
    'gives a stored response again as it was: status, headers in their order, every byte of the body',
  ],
  [
    'keeps one header of each name',
    { stored: (r) => ({ ...r, headers: Object.entries(Object.fromEntries(r.headers)) }) },
    'gives a stored response again as it was: status, headers in their order, every byte of the body',
  ],
  [
    'takes a body that was not kept for an empty one',
    { stored: (r) => ({ ...r, body: r.body ?? Buffer.alloc(0) }) },
    'gives a stored response again as it was: status, headers in their order, every byte of the body',
  ],
];
