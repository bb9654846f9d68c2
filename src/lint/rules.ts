/** What a rule finds, why it is a hazard, and what to do instead. */
export interface Rule {
  readonly id: string;
  readonly severity: 'error' | 'warning';
  /** in one line */
  readonly title: string;
  /** what happens, and in which failure */
  readonly harm: string;
  readonly remedy: string;
  /** the page of an exhibit that shows it happen */
  readonly page: string;
}

const DERIVE =
  'Derive the key from what is charged (customer, period, operation) where the charge is decided, or make it once and store it before the first send; here only pass it on.';

const page = (name: string): string => `docs/failures/${name}.md`;

/** The ids are stable: suppressions and dashboards name them. */
export const RULES = {
  'key-in-interceptor': {
    id: 'key-in-interceptor',
    severity: 'error',
    title: 'an idempotency key is made in an interceptor or hook',
    harm: 'It runs for each send. When an answer is lost and the client sends again, or follows a redirect, or signs in anew, the second send has another key and is a second charge.',
    remedy: `${DERIVE} A hook may set X-Attempt-Id.`,
    page: page('01-interceptor-key-resend'),
  },
  'key-if-absent': {
    id: 'key-if-absent',
    severity: 'error',
    title: 'a request that has no idempotency key is given a new one on its way',
    harm: 'The layer above sends the request as its caller gave it, without a key, each time it tries again: each try gets a key of its own here, and each one charges.',
    remedy: 'Refuse a POST that has no key. The layer that sends cannot know which charge it is.',
    page: page('04-key-if-absent-per-send'),
  },
  'key-in-retry-hook': {
    id: 'key-in-retry-hook',
    severity: 'error',
    title: 'an idempotency key is made in a retry hook',
    harm: 'The hook runs before each retry. When the first send was executed and only its answer was lost, the retry has another key and charges again.',
    remedy:
      'Leave the key alone between tries: the stored answer is what a retry asks for. A hook may set X-Attempt-Id.',
    page: page('03-retry-hook-new-key'),
  },
  'key-in-retry': {
    id: 'key-in-retry',
    severity: 'error',
    title: 'an idempotency key is made in code that is tried again',
    harm: 'Each try makes another key. When a try was executed and its answer came late or never, the next one charges again.',
    remedy:
      'Make the key outside of what is retried: derived from what is charged, or stored before the first try.',
    page: page('07-key-at-the-call-site'),
  },
  'key-in-handler': {
    id: 'key-in-handler',
    severity: 'error',
    title: 'an idempotency key is made in the handler of a message, event or request',
    harm: 'A message that was not acknowledged comes again, an event fires again on reconnect, a client repeats its request: the handler runs again with another key and charges again.',
    remedy: 'Take the key out of the message or request, or derive it from what they order.',
    page: page('12-message-fired-again'),
  },
  'key-from-message': {
    id: 'key-from-message',
    severity: 'error',
    title: 'the idempotency key is the id of a message that its handler sends again',
    harm: 'What is put back into the queue is a new message with a new id. When the charge was made and something after it failed, the new message charges again.',
    remedy:
      'Derive the key from what the message orders, so that all messages about one charge have one key.',
    page: page('12-message-fired-again'),
  },
  'key-from-clock': {
    id: 'key-from-clock',
    severity: 'error',
    title: 'an idempotency key is made of the time',
    harm: 'The next try is at another time, and so has another key: it charges again. Two customers in one millisecond may share one.',
    remedy: 'Use the billing period that is charged, given from outside, and never the clock.',
    page: page('11-key-from-what-is-at-hand'),
  },
  'key-from-tracing': {
    id: 'key-from-tracing',
    severity: 'error',
    title: 'an idempotency key is made of a retry counter or of the id of a request, span or trace',
    harm: 'Those are new for each try, since they tell tries apart. So does the key then, and each try charges.',
    remedy:
      'Send them as X-Attempt-Id or a tracing header. The key says which charge it is, not which try.',
    page: page('38-tracing-id-key'),
  },
  'key-from-connection': {
    id: 'key-from-connection',
    severity: 'error',
    title: 'an idempotency key is made of the id of a connection, socket, channel or session',
    harm: 'It ends with the connection. What is sent again after a reconnect has another key and charges again.',
    remedy: 'Derive the key from what is charged; it has to outlive the connection.',
    page: page('11-key-from-what-is-at-hand'),
  },
  'key-from-identity': {
    id: 'key-from-identity',
    severity: 'error',
    title: 'an idempotency key is made of the identity of an object or process',
    harm: 'The number of an object, a counter in memory, a process id or a host name is another one after a restart, in another replica and for another object about the same charge: it is charged again, or another customer meets a used key.',
    remedy: 'Derive the key from what is charged, which is the same in every process.',
    page: page('11-key-from-what-is-at-hand'),
  },
  'key-in-shared-state': {
    id: 'key-in-shared-state',
    severity: 'error',
    title: 'an idempotency key lies in a variable that calls running at once share',
    harm: 'While one call waits, the next one overwrites the key: the first charge goes out under the key of the second, and the second gets the answer to the first.',
    remedy: 'Hand the key on as an argument.',
    page: page('13-shared-handler-state'),
  },
  'key-from-randomness': {
    id: 'key-from-randomness',
    severity: 'warning',
    title: 'an idempotency key is random and stored nowhere',
    harm: 'Whoever calls this code again, after a time-out or a restart, makes another key and charges again.',
    remedy:
      'Derive the key from what is charged, or store it with the order before the first send and read it back.',
    page: page('10-lazy-key'),
  },
  'stripe-post-without-key': {
    id: 'stripe-post-without-key',
    severity: 'warning',
    title: 'a request that moves money has no idempotency key',
    harm: 'When its answer is lost, a second call is a second charge. The key that an SDK makes by itself is as old as one call of it.',
    remedy:
      'Give an idempotency key that is derived from what is charged, or stored before the first send.',
    page: page('06-sdk-automatic-key'),
  },
  'suppression-without-reason': {
    id: 'suppression-without-reason',
    severity: 'error',
    title: 'a finding is switched off without a reason, or by a rule that does not exist',
    harm: 'Nobody can tell later whether the place was looked at.',
    remedy: 'Write: // chargeonce-lint-disable-next-line RULE -- REASON',
    page: page('06-sdk-automatic-key'),
  },
} as const satisfies Readonly<Record<string, Rule>>;

export type RuleId = keyof typeof RULES;

export function isRuleId(id: string): id is RuleId {
  return Object.hasOwn(RULES, id);
}
