/** What a form asks for by itself. */

import type { AmountRow } from "../ui/limits";

/**
 * A row for each resource that is limited above, since it has to be named. Who has begun to fill in amounts keeps his rows, and gets those
 * that are missing, unless they were offered before: he has taken them out.
 */
export function offering(rows: readonly AmountRow[], limited: readonly string[], isOffered: boolean): readonly AmountRow[] {
  const names = rows.map(({ resource }) => resource);
  const begun = rows.some(({ amount }) => amount !== "");
  if (!begun) return limited.length === 0 || names.join() === limited.join() ? rows : limited.map(empty);
  const missing = isOffered ? [] : limited.filter((resource) => !names.includes(resource));
  return missing.length === 0 ? rows : [...rows, ...missing.map(empty)];
}

const empty = (resource: string): AmountRow => ({ resource, amount: "" });
