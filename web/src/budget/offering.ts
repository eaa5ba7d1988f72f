/** What a form asks for of each cluster, and what it asks for by itself: pure functions. */

/** A resource, and how much of it, as they are typed. */
export interface AmountRow {
  resource: string;
  amount: string;
}

/** What is asked for of a cluster. */
export interface ClusterLimits {
  cluster: string;
  amounts: readonly AmountRow[];
}

/** What a cluster that is added begins with. */
export const emptyLimits = (cluster: string): ClusterLimits =>
  ({ cluster, amounts: [empty("requests.cpu"), empty("requests.memory")] });

/** As a quota has it; rows that nobody has filled in are left out. */
export function filledIn(rows: readonly AmountRow[]): Record<string, string> {
  return Object.fromEntries(rows.filter(({ resource, amount }) => resource && amount).map(({ resource, amount }) => [resource, amount]));
}

/**
 * A row for each resource that is limited above, since it has to be named. Who has begun to fill in amounts keeps his rows, and gets those
 * that are missing. What is offered already is offered once: who has added rows or taken some out keeps them so.
 */
export function offering(rows: readonly AmountRow[], limited: readonly string[], isOffered: boolean): readonly AmountRow[] {
  if (isOffered) return rows;
  const names = rows.map(({ resource }) => resource);
  const begun = rows.some(({ amount }) => amount !== "");
  if (!begun) return limited.length === 0 || names.join() === limited.join() ? rows : limited.map(empty);
  const missing = limited.filter((resource) => !names.includes(resource));
  return missing.length === 0 ? rows : [...rows, ...missing.map(empty)];
}

/**
 * Which of the clusters that may be chosen each entry of a form gets: its own where it is among them, else one that no other entry has, else
 * none. Each is there once: of two the second would count alone.
 */
export function placed(entries: readonly string[], names: readonly string[]): (string | undefined)[] {
  if (names.length === 0) return [...entries];
  const taken = new Set(entries);
  return entries.map((entry) => {
    const cluster = names.includes(entry) ? entry : names.find((name) => !taken.has(name));
    if (cluster !== undefined) taken.add(cluster);
    return cluster;
  });
}

/** Whether a row names what one before it names. */
export function isNamedBefore(rows: readonly AmountRow[], at: number): boolean {
  const resource = rows[at]?.resource ?? "";
  return resource !== "" && rows.findIndex((row) => row.resource === resource) < at;
}

const empty = (resource: string): AmountRow => ({ resource, amount: "" });
