/** What a code means; the page `/problems` and the OpenAPI document are made of this table. */
export interface ProblemKind {
  readonly status: number;
  /** shown in place of the status where that differs from case to case */
  readonly statusText?: string;
  readonly title: string;
  /** for the page: when it comes, and what to do */
  readonly explanation: string;
}

function kind(status: number, title: string, explanation: string): ProblemKind {
  return { status, title, explanation };
}

/** Every problem of the API beside those of the Idempotency-Key layer. Codes are stable: clients may test them. */
export const PROBLEMS = {
  'token-missing': kind(
    401,
    'This request needs a token',
    'Send Authorization: Bearer cot_…. An administrator makes a token with "chargeonce tokens create".',
  ),
  'token-invalid': kind(
    401,
    'The token is not valid',
    'It is unknown, expired or revoked; which of them is not said. Ask for a new one.',
  ),
  'role-insufficient': kind(
    403,
    'The role of this token does not allow this',
    'Roles are viewer, operator, approver and admin; each may do what the ones before it may. The detail names the role that is needed.',
  ),
  'too-many-failures': kind(
    429,
    'Too many wrong tokens came from this address',
    'Wait as long as Retry-After says. Tokens that were used from anywhere in the last minutes still pass.',
  ),
  'quota-exceeded': kind(
    429,
    'Too many requests',
    'The quota belongs to the name of the token, and to one server process. Wait as long as Retry-After says and send the same request with the same Idempotency-Key: nothing was done. Stored responses use no quota.',
  ),
  'server-busy': kind(
    503,
    'Too many requests are under way',
    'Nothing was done. Send the same request again, with the same Idempotency-Key.',
  ),
  'too-many-streams': kind(
    503,
    'Too many event streams are open',
    'Close one, or poll GET /v1/runs/{period} instead.',
  ),
  'parameter-invalid': kind(
    400,
    'A parameter is not valid',
    'The member "errors" says of each wrong field where it stands and what is wrong. Nothing was done, and the Idempotency-Key was not used up.',
  ),
  'path-invalid': kind(
    400,
    'The path names something that cannot be',
    'A part of the path has not the form that it needs. The member "errors" says which.',
  ),
  'body-unreadable': kind(400, 'The body cannot be read', 'Send JSON with its Content-Type.'),
  'request-too-large': kind(413, 'The body is too large', 'The detail says how large it may be.'),
  'content-type-unsupported': kind(
    415,
    'The route does not take this Content-Type',
    'Most routes take application/json only.',
  ),
  'path-unknown': kind(404, 'There is no such route', 'GET /openapi.json lists the routes.'),
  'method-unknown': kind(
    405,
    'The route does not have this method',
    'The header Allow lists the methods that it has.',
  ),
  'run-unknown': kind(
    404,
    'No run of this period is known',
    'Nobody has planned this period in this namespace. POST /v1/runs starts it.',
  ),
  'customer-unknown': kind(
    404,
    'The run does not have this customer',
    'The period is planned, and its frozen plan does not have the customer. GET /v1/runs/{period}/customers lists those that it has.',
  ),
  'already-charged': kind(
    409,
    'The customer is charged already',
    'A charged slot is never charged again, whoever orders it. Nothing was sent.',
  ),
  'nothing-due': kind(
    409,
    'The customer has nothing to be charged',
    'The amount of the frozen plan is zero, or there is no payment method. Import one, then order the rerun with a new Idempotency-Key.',
  ),
  'resolution-not-open': kind(
    409,
    'There is nothing to resolve',
    'Only a customer whose charge is in doubt can be resolved. The member "state" says how it stands.',
  ),
  'resolution-too-early': kind(
    409,
    'Stripe still answers by itself',
    'The key of the charge is younger than 23 hours, so its outcome is asked for and not decided by a person.',
  ),
  'stripe-disagrees': kind(
    409,
    'Stripe shows something else',
    'What was said of the charge does not agree with what Stripe shows; the detail says how. Nothing was changed.',
  ),
  'charge-taken': kind(
    409,
    'The charge pays something else already',
    'A charge pays one customer in one period. Nothing was changed.',
  ),
  'stripe-unavailable': kind(
    503,
    'Stripe gave no answer',
    'Nothing was changed. Send it again with the same Idempotency-Key.',
  ),
  'import-invalid': kind(
    400,
    'The file cannot be imported',
    'Nothing of it was imported. The member "errors" has the line and the column of each problem, the first thousand of them. Mend the file and send it with a new Idempotency-Key.',
  ),
  'import-busy': kind(
    409,
    'Another import is being written',
    'Nothing is wrong with the file, and nothing of it was imported. Send it with a new Idempotency-Key when the other one is done.',
  ),
  'schedule-unknown': kind(
    404,
    'There is no schedule',
    'Nothing starts the runs of this namespace by itself. PUT /v1/schedule makes a schedule.',
  ),
  'order-overtaken': kind(
    409,
    'An earlier try may have been carried out, and things are otherwise now',
    'The process that had this order first is gone or got no answer. Somebody may have ordered the opposite since, so it is not carried out again. Look how things stand; if the order is still right, send it with a new Idempotency-Key.',
  ),
  'schedule-skips': kind(
    400,
    'The schedule would leave out a period',
    'The time does not exist on one of its days, since clocks are put forward over it. Choose another time.',
  ),
  'vault-key-unknown': kind(
    404,
    'There is no such vault key',
    'Keys are named by their id, 16 hex digits. GET /v1/vault/keys lists them.',
  ),
  'vault-key-revoked': kind(409, 'The vault key is revoked', 'It stays so. Make a new one.'),
  'vault-refused': kind(
    400,
    'The vault refused the order',
    'The detail has the answer of the vault. Nothing was changed.',
  ),
  'vault-not-configured': kind(
    503,
    'This server does not know the vault',
    'It was started without VAULT_ADMIN_URL and VAULT_ADMIN_TOKEN. Nothing was changed, and the Idempotency-Key was not used up.',
  ),
  'vault-unavailable': kind(
    503,
    'The vault gave no answer',
    'Whether the order was carried out is not known. Raise and revoke can be sent again with the same Idempotency-Key; after a create look with GET /v1/vault/keys first, and order it again under a new one if need be.',
  ),
  'run-not-under-way': kind(
    409,
    'The run is not under way',
    'Only a run under way can be paused, resumed or stopped. The member "state" says how it stands.',
  ),
  'run-stopped': kind(
    409,
    'The run was stopped',
    'It goes on with the customers that are left when it is started with go_on_after_stop and a reason.',
  ),
  'run-of-another-database': kind(
    409,
    'Temporal knows a run that this database does not know',
    'Temporal has the run as ended and the database has no plan of it: they do not belong together. Nobody was charged.',
  ),
  'no-customers': kind(
    409,
    'There is nobody to bill',
    'No customer is active. Import customers first, then start the run with a new Idempotency-Key.',
  ),
  'environment-mismatch': kind(
    409,
    'The database belongs elsewhere',
    'It is bound to another Stripe account, mode, server or Temporal than this server uses, as a copy would be. Nothing was done.',
  ),
  'order-refused': kind(
    409,
    'The run refused the order',
    'The detail has the answer of the run itself.',
  ),
  'run-not-answering': kind(
    503,
    'The run gave no answer in time',
    'A worker has to answer for a run, and none did. Whether the order was taken is not known: GET /v1/runs/{period} shows it. Send it again with the same Idempotency-Key once a worker polls: the run takes it once.',
  ),
  'no-worker': kind(
    503,
    'No worker polls for runs',
    'A worker has to answer for a run: start one ("chargeonce worker"). Nothing was done, and the Idempotency-Key was not used up.',
  ),
  'temporal-unavailable': kind(
    503,
    'Temporal cannot be reached',
    'Nothing was done, and the Idempotency-Key was not used up. Send the same request again.',
  ),
  'temporal-not-answering': kind(
    503,
    'Temporal gave no answer in time',
    'Whether anything was done is not known. Send the same request again with the same Idempotency-Key: what was done is not done twice.',
  ),
  'database-unavailable': kind(
    503,
    'The database cannot be reached',
    'Nothing was done. Send the same request again, with the same Idempotency-Key.',
  ),
  'database-not-answering': kind(
    503,
    'The database gave no answer in the middle of it',
    'Whether anything was done is not known. Send the same request again, with the same Idempotency-Key; orders are carried out once for each.',
  ),
  'internal-error': kind(
    500,
    'The server failed',
    'The log of the server says why. Whether anything was done is not known: look with a GET before you order it again.',
  ),
} as const satisfies Readonly<Record<string, ProblemKind>>;

/** Add a code by adding its row. */
export type ProblemCode = keyof typeof PROBLEMS;
