import { createHash } from 'node:crypto';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { IDEMPOTENCY_PROBLEMS, idempotencyRules, POLICY_PAGE } from './idempotency-rules.ts';
import { PROBLEMS, type ProblemKind } from './problem-table.ts';
import { PROBLEMS_PAGE } from './problems.ts';

const STYLE =
  'body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}' +
  'table{border-collapse:collapse;width:100%}td,th{border:1px solid #ccc;padding:.4rem .6rem;text-align:left;vertical-align:top}' +
  'code{background:#f3f3f3;padding:.1rem .25rem}:target{background:#fff6d5}';
/** Nothing but this one style: the pages load nothing and run nothing. */
const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** `/problems` and `/idempotency`: what the codes mean and how keys work, from the tables that the code goes by. */
export function registerPages(
  app: FastifyInstance,
  times: { readonly retentionMs: number; readonly leaseMs: number },
): void {
  const problems = page('Problems', [
    `<p>Errors are <code>application/problem+json</code> (RFC 9457). <code>type</code> and <code>code</code> are stable, <code>detail</code> is for people. Those of Idempotency-Keys stand on <a href="${POLICY_PAGE}">their own page</a> too.</p>`,
    problemTable({ ...PROBLEMS, ...IDEMPOTENCY_PROBLEMS }),
  ]);
  const rules = idempotencyRules(times).map(
    ({ when, rule }) => `<tr><th>${escape(when)}</th><td>${escape(rule)}</td></tr>`,
  );
  const policy = page('Idempotency-Keys', [
    '<p>A request under <code>/v1</code> that changes something is carried out once for each <code>Idempotency-Key</code>.</p>',
    `<table>${rules.join('')}</table>`,
    '<h2>Problems</h2>',
    problemTable(IDEMPOTENCY_PROBLEMS),
  ]);
  app.get(PROBLEMS_PAGE, { schema: { hide: true } }, (_request, reply) => send(reply, problems));
  app.get(POLICY_PAGE, { schema: { hide: true } }, (_request, reply) => send(reply, policy));
}

function send(reply: FastifyReply, html: string): FastifyReply {
  return reply
    .header('Content-Type', 'text/html; charset=utf-8')
    .header('Content-Security-Policy', POLICY)
    .header('Referrer-Policy', 'no-referrer')
    .send(html);
}

function page(title: string, parts: readonly string[]): string {
  return (
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${title} · chargeonce</title>` +
    `<style>${STYLE}</style></head><body><h1>${title}</h1>${parts.join('')}</body></html>`
  );
}

function problemTable(problems: Readonly<Record<string, ProblemKind>>): string {
  const rows = Object.entries(problems)
    .toSorted(([left, a], [right, b]) => a.status - b.status || left.localeCompare(right))
    .map(
      ([code, { status, statusText, title, explanation }]) =>
        `<tr id="${code}"><td>${statusText ?? status}</td><td><code>${code}</code></td><td>${escape(title)}</td><td>${escape(explanation)}</td></tr>`,
    );
  return `<table><tr><th>status</th><th>code</th><th>means</th><th>what to do</th></tr>${rows.join('')}</table>`;
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
};

function escape(text: string): string {
  return text.replaceAll(/[&<>"]/g, (letter) => ENTITIES[letter] ?? letter);
}
