/** The amounts in a form, and the rows that it offers: pure functions. */

/** A resource and an amount, as typed. */
export interface AmountRow {
  resource: string;
  amount: string;
  /** Whether the form offers the row and nobody has typed into it. */
  isOffered?: boolean;
}

/** The amounts for one cluster. */
export interface ClusterLimits {
  cluster: string;
  amounts: readonly AmountRow[];
}

/** The rows of a cluster that was just added. */
export const emptyLimits = (cluster: string): ClusterLimits =>
  ({ cluster, amounts: [empty("requests.cpu"), empty("requests.memory")] });

/** The rows as in a ResourceQuota, without incomplete ones. */
export function filledAmounts(rows: readonly AmountRow[]): Record<string, string> {
  return Object.fromEntries(rows.filter(({ resource, amount }) => resource && amount).map(({ resource, amount }) => [resource, amount]));
}

/**
 * Offers a row for each resource that the parent limits, since it must be set. If the user has filled in an amount, his rows stay and the
 * missing ones are added; else offered ones of other resources go. Rows that stay keep their order: the user may be about to type into
 * one. What was offered before is not offered again: the user may have added or removed rows since.
 */
export function offeredRows(rows: readonly AmountRow[], limited: readonly string[], isOffered: boolean): readonly AmountRow[] {
  if (isOffered || limited.length === 0) return rows;
  const begun = rows.some(({ amount }) => amount !== "");
  const kept = begun ? rows : rows.filter((row) => row.isOffered !== true || limited.includes(row.resource));
  const names = new Set(kept.map(({ resource }) => resource));
  const missing = limited.filter((resource) => !names.has(resource));
  return missing.length === 0 && kept.length === rows.length ? rows : [...kept, ...missing.map(empty)];
}

/**
 * Assigns each entry of a form one of the clusters `names`: its own if it is among them, else one that no other entry has, else none. No
 * cluster is assigned twice, since the second entry would overwrite the first.
 */
export function assignClusters(entries: readonly string[], names: readonly string[]): (string | undefined)[] {
  if (names.length === 0) return [...entries];
  const taken = new Set(entries);
  return entries.map((entry) => {
    const cluster = names.includes(entry) ? entry : names.find((name) => !taken.has(name));
    if (cluster !== undefined) taken.add(cluster);
    return cluster;
  });
}

/** The clusters that no entry of the form has. */
export function freeClusters(choices: readonly string[], limits: readonly ClusterLimits[]): string[] {
  const taken = new Set(limits.map(({ cluster }) => cluster));
  return choices.filter((name) => !taken.has(name));
}

/** Whether an earlier row has the same resource. */
export function isDuplicate(rows: readonly AmountRow[], at: number): boolean {
  const resource = rows[at]?.resource ?? "";
  return resource !== "" && rows.findIndex((row) => row.resource === resource) < at;
}

/** The longest name of an object, and of a namespace in its cluster. */
export const NAME_MAX = 63;
/** The longest prefix that the server completes with five letters. */
const PREFIX_MAX = NAME_MAX - 5;
/** How a name may begin. */
const LABEL_START = /^[a-z0-9][-a-z0-9]*$/;

/**
 * The name of a new Namespace: its cluster's name and its own in that cluster. A cluster's name may have dots and be longer, which a
 * Namespace's may not: then the server completes the namespace's.
 */
export function namespaceName(cluster: string, namespace: string): { name: string } | { generateName: string } {
  const name = `${cluster}-${namespace}`;
  return LABEL_START.test(cluster) && name.length <= NAME_MAX ? { name } : { generateName: `${namespace.slice(0, PREFIX_MAX - 1)}-` };
}

const empty = (resource: string): AmountRow => ({ resource, amount: "", isOffered: true });
