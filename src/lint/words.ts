// The names that people give to things. Where a file does not tell what a value is, its name does.

const KEY_NAME = /^(?:x[-_]?)?idempotency[-_]?key$/i;
const HEADER_NAME = /^(?:x-)?idempotency-key$/i;

/** `Idempotency-Key`, `idempotencyKey`, `idempotency_key` */
export const isKeyName = (name: string): boolean => KEY_NAME.test(name);
export const isHeaderName = (name: string): boolean => HEADER_NAME.test(name);

/** Whether a file can have anything to find: most cannot, and are not parsed. */
export const isWorthReading = (text: string): boolean =>
  /idempoten|stripe|payment_?intents/i.test(text);

/** Tests make keys as they like; what would charge twice in them is found all the same. */
export const isTestFile = (fileName: string): boolean =>
  /(?:^|[\\/])(?:tests?|__tests__|spec|e2e)[\\/]|\.(?:test|spec|e2e)\.[cm]?[jt]sx?$/.test(fileName);

/** A number of tries. */
export const isTries = (name: string): boolean =>
  /^(?:attempts?|attempt_?(?:number|count|no|index)|attempts_?made|retry|retries|retry_?(?:count|number|attempt|index|no)|retries_?(?:left|done)|try_?(?:count|number|no)|tries|times_?tried)$/i.test(
    name,
  );

/** What has a number of tries that is one. */
export const isCountingTries = (name: string): boolean =>
  /^(?:job|ctx|context|config|options|opts|state|error|err|e|c|req|request|retry|operation|info|meta|task|this|axios-retry|message|msg|delivery|send|attempt)$/i.test(
    name,
  );

/** What finds one request or one span again. Never the business. */
export const isTracing = (name: string): boolean =>
  /^(?:trace_?id|span_?id|attempt_?id|trace_?parent|x-trace-id|x-b3-traceid|x-amzn-trace-id|x-attempt-id)$/i.test(
    name,
  );

/** New for each request, where it is one of the request's own: `req.id`; as a parameter it may be the caller's order. */
export const isRequestId = (name: string): boolean =>
  /^(?:(?:request|correlation|req)_?id|x-request-id|x-correlation-id)$/i.test(name);

/** What carries the ids of a request. */
export const isRequest = (name: string): boolean =>
  /^(?:ctx|context|c|getStore|store|headers|tracing|span|spanContext)$/i.test(name);
/** An HTTP request, or an order that is called a request. */
export const isRequestName = (name: string): boolean => /^(?:req|request)$/i.test(name);
/** What stands beside an HTTP request among the parameters of its handler. */
export const isReplyName = (name: string): boolean =>
  /^(?:res|reply|response|next|done|h)$/.test(name);

/** Whatever it is a property of. */
export const isConnectionId = (name: string): boolean =>
  /^(?:socket|connection|conn)_?id$/i.test(name);
/** A session may be a checkout and a channel may sell: these need what they are a property of. */
export const isSessionId = (name: string): boolean =>
  /^(?:session|channel)_?id$|^(?:session_?)?token$/i.test(name);
export const isSocket = (name: string): boolean => /^(?:socket|ws|websocket)$/i.test(name);
export const isConnection = (name: string): boolean => /^(?:connection|conn|channel)$/i.test(name);
/** A file that opens connections, or takes them. */
export const opensConnections = (text: string): boolean =>
  /new \w*(?:Connection|Socket|Session|Client|Channel)\b|\b(?:create)?(?:Connection|Channel)\(|\bconnect\(|\.on\(\s*['"](?:connection|connect|open|session|ready)['"]/.test(
    text,
  );

/** A message or job of a queue. */
export const isMessage = (name: string): boolean =>
  /^(?:job|message|msg|record|delivery)$/i.test(name);
export const isMessageId = (name: string): boolean =>
  /^(?:job|message|msg|delivery)_?id$/i.test(name);

/** Puts a message into a queue. */
export const isSendToQueue = (name: string): boolean =>
  /^(?:send|publish|enqueue|add|push|produce|sendToQueue|requeue|emit|dispatch|sendMessage)$/i.test(
    name,
  );

/** Code that calls what it is given again. */
export const isRetrying = (name: string): boolean =>
  /retr(?:y|ies|ier|ying|iable)|back_?off|^attempt(?:s|er)?$|re(?:attempt|peat|send|submit|connect)|keepTrying|untilSuccess/i.test(
    name,
  );
export const isPolicy = (name: string): boolean =>
  /polic(?:y|ies)|breaker|resilien|bulkhead/i.test(name);

/** Hooks of clients and retry libraries that run for each try after the first. */
export const isRetryHook = (name: string): boolean =>
  /^(?:before|on|after|pre|modify|prepare|should)_?(?:Retry|Retries|FailedAttempt|Attempt|Resend|Redirect|Reconnect)\w*$|^modifyRequest(?:OnRetry)?$|^retry(?:Strategy|Condition|Delay|Hook)$/i.test(
    name,
  );

/** Hooks and methods that run for each send. */
export const isSendHook = (name: string): boolean =>
  /^(?:before|on|pre|prepare|modify|transform|intercept|sign|decorate|will)_?(?:Request|Send|Headers|SendRequest|Options)\w*$|^(?:request)?_?interceptors?$|^intercept$|^dispatch$|interceptor$|^addRequest$/i.test(
    name,
  );

/** Functions that get a message, a job or an event, and get it again. */
export const isHandlerName = (name: string): boolean =>
  /^(?:on|handle|process|consume)(?:Each)?(?:Message|Job|Event|Delivery|Record|Batch|Task|Connect(?:ion)?|Reconnect|Open|Ready|Session)\w*$|^each(?:Message|Batch)$|^(?:handle|consume|processor|handler|worker|consumer)$/i.test(
    name,
  );

/** Gives messages to a function, and gives one again that was not acknowledged. */
export const isSubscribing = (name: string): boolean =>
  /^(?:process|consume|work|subscribe|receive|eachMessage|listen|schedule|setInterval|every|registerHandler|Worker|CronJob|Cron|onMessage)$/i.test(
    name,
  );
export const isEventRegistration = (name: string): boolean =>
  /^(?:on|once|addListener|addEventListener|prependListener)$/.test(name);
export const isRouteMethod = (name: string): boolean =>
  /^(?:post|put|patch|delete|all|route)$/.test(name);
export const isRouter = (name: string): boolean =>
  /^(?:app|router|server|fastify|api|routes?|express)$/i.test(name);

/** Writes something down, or reads it back. */
export const isStoring = (name: string): boolean =>
  /^(?:insert\w*|values|save\w*|upsert\w*|persist\w*|store\w*|put\w*|set|setItem|setnx|hset|write\w*|update\w*|findOrCreate|getOrCreate\w*|query\w*|execute\w*|add|enqueue|claim\w*|remember\w*|record\w*|reserve\w*|append|\$?executeRaw|\$?queryRaw|startWorkflow)$/i.test(
    name,
  );
export const isStore = (name: string): boolean =>
  /repo(?:sitory)?$|^(?:prisma|db|database|knex|orm|trx|tx|em|redis|cache|pool|sql|queue|table)$|store$|storage$|(?:entity)?manager$|dao$/i.test(
    name,
  );

/** A call that charges, pays or sends. */
export const isMoneyOrHttp = (name: string): boolean =>
  /stripe|square|adyen|paypal|braintree|mollie|gocardless|payment|charge|refund|payout|transfer|capture|invoice|subscription|checkout|^orders?$|^bill/i.test(
    name,
  ) ||
  /^(?:post|put|patch|request|fetch|axios|got|ky|superagent|send|call|http|https)$/i.test(name);

/** Options of a request rather than something of the business. */
export const isOptions = (name: string): boolean =>
  /(?:options|opts|config|init|headers|request|req|params|settings)$/i.test(name);

/** Makes a key or a text out of what it is given. */
export const isMakingText = (name: string): boolean =>
  /key|hash|sha\d*|md5|digest|hmac|uuidv5|^v5$|uuid|join|concat|format|encode|stringify|token|^String$|^Number$|^BigInt$|^btoa$|^from$|slug|^id$|^Math$/i.test(
    name,
  );
/** Methods whose answer is as stable as what they are called on. */
export const isTextMethod = (name: string): boolean =>
  /^(?:slice|substr(?:ing)?|replace(?:All)?|toString|to(?:Upper|Lower)Case|trim|pad(?:Start|End)|concat|join|split|at|toISOString|getTime|valueOf|digest|update|toJSON|toFixed|format|unix|toMillis|toISO|readUInt\w+|copy|flat|filter|map|pop|shift)$/.test(
    name,
  );
