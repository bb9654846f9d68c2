import type { CallExpression, Node } from 'oxc-parser';
import type { Contexts } from './contexts.ts';
import type { RawFinding } from './finding.ts';
import type { Call, Model } from './model.ts';
import type { Sink } from './sinks.ts';
import type { Structure } from './structure.ts';
import { bare, nameOfKey, pathOf } from './syntax.ts';
import { isHeaderName, isKeyName } from './words.ts';

/** What moves money or makes what will: by resource, the methods of the SDK. */
const METHODS: Readonly<Record<string, RegExp>> = {
  paymentIntents: /^(?:create|confirm|capture|incrementAuthorization|applyCustomerBalance)$/,
  setupIntents: /^confirm$/,
  charges: /^(?:create|capture)$/,
  refunds: /^create$/,
  transfers: /^(?:create|createReversal)$/,
  payouts: /^(?:create|reverse)$/,
  topups: /^create$/,
  invoices: /^(?:create|pay|finalizeInvoice|sendInvoice)$/,
  invoiceItems: /^create$/,
  subscriptions: /^(?:create|update|resume)$/,
  subscriptionSchedules: /^create$/,
  subscriptionItems: /^create(?:UsageRecord)?$/,
  creditNotes: /^create$/,
  customerBalanceTransactions: /^create$/,
  usageRecords: /^create$/,
};
/** These are called with the id of what they act on. */
const WITHOUT_ID = /^create$/;
/** Names that no other SDK has; the others need something called Stripe beside them. */
const STRIPE_ONLY = new Set(['paymentIntents', 'setupIntents']);
const STRIPE_PATH =
  /api\.stripe\.com|\bv1\/(?:payment_intents|charges|refunds|transfers|payouts|invoices|invoiceitems|subscriptions|topups)\b/;
const HTTP_CLIENTS = /^(?:axios|got|ky|superagent|needle|wretch)$/i;
const READS = /\/search\b/;

export class StripePosts {
  readonly #model: Model;
  readonly #structure: Structure;
  readonly #contexts: Contexts;

  constructor(model: Model, structure: Structure, contexts: Contexts) {
    this.#model = model;
    this.#structure = structure;
    this.#contexts = contexts;
  }

  /** `sinks`: where the file gives keys by itself. */
  all(sinks: readonly Sink[]): RawFinding[] {
    return this.#model.calls.flatMap((call) => {
      if (call.type !== 'CallExpression') return [];
      const what = this.#sdkCall(call) ?? this.#rawPost(call, sinks);
      if (what === null) return [];
      const context = this.#contexts.of(call);
      const again = context === null ? '' : `, in ${context.label}`;
      return [
        {
          rule: 'stripe-post-without-key',
          severity: context === null ? 'warning' : 'error',
          node: call.callee,
          message: `${what} has no idempotency key of yours${again}`,
        },
      ];
    });
  }

  /** `stripe.refunds.create({ … })` without `{ idempotencyKey }` behind. */
  #sdkCall(call: CallExpression): string | null {
    const path = pathOf(call.callee);
    const [resource, method] = [path.at(-2) ?? '', path.at(-1) ?? ''];
    if (!Object.hasOwn(METHODS, resource) || METHODS[resource]?.test(method) !== true) return null;
    if (!STRIPE_ONLY.has(resource) && !this.#isStripe(call.callee)) return null;
    if (path.length < 3) return null;
    const rest = call.arguments.slice(1);
    if (call.arguments.some((argument) => argument.type === 'SpreadElement')) return null;
    // The last argument is the options; with one left after the id it may be parameters, which have no key either.
    const options = WITHOUT_ID.test(method) ? rest.slice(0, 1) : rest;
    return options.every((one) => this.#hasKey(one, isKeyName) === false)
      ? `${path.slice(-3).join('.')}(…)`
      : null;
  }

  #isStripe(callee: Node): boolean {
    const path = pathOf(callee);
    if (path.slice(0, -2).some((part) => /stripe/i.test(part))) return true;
    let root = bare(callee);
    while (root.type === 'MemberExpression') root = bare(root.object);
    const binding = root.type === 'Identifier' ? this.#model.binding(root) : null;
    if (binding === null || binding.kind === 'import') return false;
    return /\bStripe\b/.test(
      this.#model.text(
        binding.node.type === 'VariableDeclarator' ? binding.node : binding.identifier,
      ),
    );
  }

  /** Whether an object has a key: null when this file does not tell. */
  #hasKey(object: Node, isKey: (name: string) => boolean, depth = 6): boolean | null {
    const node = bare(object);
    if (depth === 0) return null;
    if (node.type === 'ObjectExpression') {
      let unknown = false;
      for (const property of node.properties) {
        if (property.type === 'SpreadElement') {
          const spread = this.#hasKey(property.argument, isKey, depth - 1);
          if (spread === true) return true;
          unknown ||= spread === null;
        } else {
          const name = nameOfKey(property.key, property.computed);
          if (name === null) unknown = true;
          else if (isKey(name)) return true;
        }
      }
      return unknown ? null : false;
    }
    if (node.type === 'Identifier' && node.name === 'undefined') return false;
    if (node.type === 'NewExpression' && pathOf(node.callee).join('.') === 'Headers')
      return node.arguments[0] === undefined
        ? null
        : this.#hasKey(node.arguments[0], isKey, depth - 1);
    const values = this.#valuesOf(node);
    if (values === null) return null;
    const answers = values.map((value) => this.#hasKey(value, isKey, depth - 1));
    if (answers.includes(true)) return true;
    return answers.length === 0 || answers.includes(null) ? null : false;
  }

  #valuesOf(node: Node): Node[] | null {
    if (node.type === 'CallExpression')
      return this.#structure
        .functionsOf(node.callee)
        .flatMap((fn) => this.#structure.returnsOf(fn));
    if (node.type === 'Identifier') {
      const binding = this.#model.binding(node);
      if (binding?.kind !== 'variable') return null;
      // It is changed by name, or handed to somebody who may change it.
      const touched = binding.uses.some(
        (use) => this.#model.parent(use)?.type === 'MemberExpression',
      );
      return touched ? null : this.#structure.valuesOf(binding);
    }
    if (node.type === 'ConditionalExpression') return [node.consequent, node.alternate];
    return null;
  }

  /** `fetch(…/v1/charges, { method: 'POST' })` and its relatives. */
  #rawPost(call: CallExpression, sinks: readonly Sink[]): string | null {
    const post = this.#postOf(call);
    if (post === null) return null;
    // A key that is put on elsewhere, as by an interceptor, is judged there.
    if (sinks.some((sink) => !this.#isPartOfPost(sink))) return null;
    const { options, path } = post;
    if (options === null) return `${path}(…)`;
    const headers = this.#structure.property(options, 'headers');
    if (headers === null || bare(options).type !== 'ObjectExpression') return null;
    const missing = headers.every((one) => this.#hasKey(one, isHeaderName) === false);
    return missing ? `${path}(…)` : null;
  }

  #isPartOfPost(sink: Sink): boolean {
    for (const at of this.#model.ancestors(sink.node))
      if (at.type === 'CallExpression' && this.#postOf(at) !== null) return true;
    return false;
  }

  /** A POST to Stripe by hand: its options, null where it is called without. */
  #postOf(call: Call): { readonly options: Node | null; readonly path: string } | null {
    const path = pathOf(call.callee);
    const name = path.at(-1) ?? '';
    const [first, second, third] = call.arguments;
    if (first === undefined) return null;
    const text = path.join('.');
    if (name === 'post') {
      if (!this.#isStripeUrl(first)) return null;
      // axios takes a body first; got and ky take their options, which have a name for the body.
      const given = second === undefined ? null : bare(second);
      const isOptions =
        given?.type === 'ObjectExpression' &&
        /\b(?:headers|json|form|body)\b/.test(this.#model.text(given));
      const options = third ?? (isOptions ? given : null);
      // A function of somebody's own may take the key in any way.
      return this.#isHttpClient(call.callee) ? { options, path: text } : null;
    }
    if (!/^(?:fetch|request|axios|got|ky)$/.test(name)) return null;
    const options = second ?? (bare(first).type === 'ObjectExpression' ? first : null);
    if (options === null || !this.#isPost(options)) return null;
    const url = second === undefined ? null : first;
    const target =
      url ??
      this.#structure.property(options, 'url')?.[0] ??
      this.#structure.property(options, 'path')?.[0] ??
      null;
    return target !== null && this.#isStripeUrl(target) ? { options, path: text } : null;
  }

  /** axios, got and their like, or what was made of them in this file. */
  #isHttpClient(callee: Node): boolean {
    const member = bare(callee);
    const client = member.type === 'MemberExpression' ? bare(member.object) : null;
    if (client === null) return false;
    if (HTTP_CLIENTS.test(pathOf(client)[0] ?? '')) return true;
    const binding = client.type === 'Identifier' ? this.#model.binding(client) : null;
    const values = binding?.kind === 'variable' ? this.#structure.valuesOf(binding) : [];
    return values.some((value) => HTTP_CLIENTS.test(pathOf(bare(value))[0] ?? ''));
  }

  #isPost(options: Node): boolean {
    const methods = this.#structure.property(options, 'method') ?? [];
    return methods.some((method) => /^['"`]post['"`]$/i.test(this.#model.text(method)));
  }

  #isStripeUrl(url: Node): boolean {
    const node = bare(url);
    const binding = node.type === 'Identifier' ? this.#model.binding(node) : null;
    const texts = [
      node,
      ...(binding?.kind === 'variable' ? this.#structure.valuesOf(binding) : []),
    ].map((one) => this.#model.text(one));
    return texts.some((text) => STRIPE_PATH.test(text) && !READS.test(text));
  }
}
