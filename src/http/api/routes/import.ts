import { Readable } from 'node:stream';
import type { FastifyError, FastifyInstance } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { listCustomers, type ImportedCustomer } from '../../../db/customers.ts';
import { importCustomers, type ImportResult } from '../../../import/import-customers.ts';
import { callerOf } from '../auth.ts';
import type { ApiApp, ApiDeps } from '../deps.ts';
import { toPage } from '../paging.ts';
import { ApiProblem, problem } from '../problems.ts';
import {
  importAnswer,
  importedCursorKey,
  importedCustomers,
  importedQuery,
  importQuery,
} from '../schemas/customers.ts';

/** Some ten thousand lines, which are imported while the caller waits. */
const MAX_BYTES = 1024 * 1024;

const csvBody = z.any().meta({
  type: 'string',
  description:
    'CSV in UTF-8: customer_id,stripe_customer_id,payment_method_id,amount,currency[,description,active]',
});

/** `GET /v1/customers` and `POST /v1/customers/import`: what is due from whom. */
export function registerImport(app: ApiApp, deps: ApiDeps): void {
  registerList(app, deps);
  // In a context of its own: nowhere else a body is CSV, and here it is nothing else.
  void app.register(async (csv) => registerUpload(csv, deps));
}

function registerList(app: ApiApp, { db }: ApiDeps): void {
  app.get(
    '/customers',
    {
      config: { access: 'viewer' },
      schema: {
        tags: ['customers'],
        summary: 'Customers as the last import left them',
        querystring: importedQuery,
        response: { 200: importedCustomers },
      },
    },
    async (request) => {
      const { limit, after } = request.query;
      const rows = await listCustomers(db, { after: after?.[1] ?? '', limit: limit + 1 });
      const keyOf = ({ customerId }: ImportedCustomer) => importedCursorKey(customerId);
      const { data, next } = toPage(rows, { limit, keyOf, show: shown });
      return { data: [...data], next };
    },
  );
}

async function registerUpload(csv: FastifyInstance, deps: ApiDeps): Promise<void> {
  csv.removeAllContentTypeParsers();
  csv.addContentTypeParser(
    'text/csv',
    { parseAs: 'buffer', bodyLimit: MAX_BYTES },
    (_request, body, done) => done(null, body),
  );
  csv.setErrorHandler((error: FastifyError, _request, reply) => {
    if (error.code === 'FST_ERR_CTP_BODY_TOO_LARGE')
      return problem(
        reply,
        'request-too-large',
        `a file has at most ${MAX_BYTES} bytes here; a longer one is imported with "chargeonce import customers FILE.csv"`,
      );
    if (error.code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE')
      return problem(reply, 'content-type-unsupported', 'send the file as Content-Type: text/csv');
    throw error;
  });
  csv.withTypeProvider<ZodTypeProvider>().post(
    '/customers/import',
    {
      bodyLimit: MAX_BYTES,
      config: {
        access: 'operator',
        // Run again behind a newer import it would bring back what that one has changed.
        idempotency: { takeover: 'conflict' },
        problems: ['import-invalid', 'import-busy'],
      },
      schema: {
        tags: ['customers'],
        summary: 'Import customers from CSV: all lines or none',
        description:
          'Customers that the file does not name stay as they are; periods that are planned already too. At most 1 MiB; longer files are for the command line.',
        consumes: ['text/csv'],
        querystring: importQuery,
        body: csvBody,
        response: { 200: importAnswer },
      },
    },
    async (request, reply) => {
      const { dry_run: dryRun, reason } = request.query;
      const { body } = request;
      if (!Buffer.isBuffer(body)) return problem(reply, 'body-unreadable', 'the file is missing');
      const done = await importCustomers({
        db: deps.db,
        input: Readable.from([body]),
        actor: callerOf(request).name,
        dryRun,
        ...(reason === undefined ? {} : { reason }),
      });
      if (!done.ok) throw refused(done);
      const { ok: _ok, warnings, ...counts } = done;
      return { dry_run: dryRun, ...counts, warnings: [...warnings] };
    },
  );
}

function refused({ busy, problems, problemCount }: Extract<ImportResult, { ok: false }>) {
  if (busy) return new ApiProblem('import-busy', 'another import is being written right now');
  const found = problemCount === 1 ? '1 problem' : `${problemCount} problems`;
  const [first] = problems;
  return new ApiProblem('import-invalid', {
    detail: `nothing was imported: ${found}, the first on line ${first?.line ?? 0}`,
    errors: problems.map(({ line, column, value, message }) => ({
      in: 'body' as const,
      field: column,
      line,
      problem: value === undefined ? message : `${JSON.stringify(value)} ${message}`,
    })),
  });
}

function shown(customer: ImportedCustomer) {
  return {
    customer_id: customer.customerId,
    stripe_customer: customer.stripeCustomerId,
    payment_method: customer.paymentMethodId,
    amount: customer.amountMinor,
    currency: customer.currency,
    description: customer.description,
    active: customer.active,
    created_at: customer.createdAt.toISOString(),
    updated_at: customer.updatedAt.toISOString(),
  };
}
