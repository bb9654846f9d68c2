/** Codes of gRPC: the credentials may not ask, or the server does not offer it. */
const MAY_NOT_ASK: ReadonlySet<unknown> = new Set([7, 12]);

/** The part of a connection that this needs; the client's and the worker's both have it. */
interface NamespaceSource {
  describeNamespace(request: { namespace: string }): Promise<{
    readonly namespaceInfo?: { readonly id?: string | null } | null;
  }>;
}

/**
 * Which Temporal namespace this is: its name, and the id that was made with it, so that another one of
 * the same name is told apart. The id is null only where the credentials may not ask for it; any other
 * failure is thrown, because "could not ask" must not pass for "the same".
 */
export async function temporalPlace(
  source: NamespaceSource,
  namespace: string,
): Promise<{ readonly namespace: string; readonly namespaceId: string | null }> {
  try {
    const { namespaceInfo } = await source.describeNamespace({ namespace });
    const id = namespaceInfo?.id ?? '';
    return { namespace, namespaceId: id === '' ? null : id };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : null;
    if (MAY_NOT_ASK.has(code)) return { namespace, namespaceId: null };
    throw error;
  }
}
