import type { RunClient } from '../client.ts';
import { SEARCH_ATTRIBUTES } from '../embedded/temporal-dev-server.ts';

/** IndexedValueType KEYWORD of Temporal's API. */
const KEYWORD = 2;

/** Ours that the Temporal namespace does not know yet. Changes nothing. */
export async function missingSearchAttributes(client: RunClient): Promise<readonly string[]> {
  const { namespace } = client.temporal.options;
  const { customAttributes } =
    await client.temporal.connection.operatorService.listSearchAttributes({ namespace });
  return SEARCH_ATTRIBUTES.filter((name) => !(name in (customAttributes ?? {})));
}

/** Registers search attributes; those that exist already are left alone. */
export async function addSearchAttributes(
  client: RunClient,
  names: readonly string[],
): Promise<void> {
  if (names.length === 0) return;
  const { namespace } = client.temporal.options;
  await client.temporal.connection.operatorService.addSearchAttributes({
    namespace,
    searchAttributes: Object.fromEntries(names.map((name) => [name, KEYWORD])),
  });
}

/** How long the Temporal namespace keeps closed workflows, in days. */
export async function retentionDays(client: RunClient): Promise<number> {
  const { namespace } = client.temporal.options;
  const described = await client.temporal.workflowService.describeNamespace({ namespace });
  return Number(described.config?.workflowExecutionRetentionTtl?.seconds ?? 0) / 86_400;
}
