/** Limits that a form changes, also when somebody else changes them at the same time: pure functions. */

import type { QuantityText } from "../amounts/quantity";
import { type ClusterLimits, filledAmounts } from "./form";
import { compareNames } from "./shares";

/** Amounts by cluster and resource. */
export type Limits = Readonly<Record<string, Readonly<Record<string, QuantityText>>>>;

export function toFormLimits(limits: Limits): ClusterLimits[] {
  return Object.entries(limits).map(([cluster, hard]) => ({ cluster, amounts: Object.entries(hard).map(([resource, amount]) => ({ resource, amount: String(amount) })) }));
}

export interface LimitChange {
  cluster: string;
  resource: string;
  before: string | undefined;
  after: string | undefined;
}

/** The differences, sorted by cluster and resource. */
export function limitChanges(before: Limits, after: Limits): LimitChange[] {
  const union = (a: object | undefined, b: object | undefined) => [...new Set([...Object.keys(a ?? {}), ...Object.keys(b ?? {})])].sort(compareNames);
  return union(before, after).flatMap((cluster) => union(before[cluster], after[cluster]).flatMap((resource) => {
    const [old, fresh] = [textOf(before[cluster]?.[resource]), textOf(after[cluster]?.[resource])];
    return old === fresh ? [] : [{ cluster, resource, before: old, after: fresh }];
  }));
}

/**
 * Whether a row has lost the amount of a limit. If it were left out of what is sent, the limit would be gone, and what has no limit is
 * unlimited: whoever has emptied a field hardly means that.
 */
export function isEmptied(before: Limits, { cluster, amounts }: ClusterLimits, at: number): boolean {
  const resource = amounts[at]?.resource ?? "";
  return before[cluster]?.[resource] !== undefined && amounts[at]?.amount === "" && !(resource in filledAmounts(amounts));
}

/** The limits that were taken out in clusters that stay: nothing limits these resources there any more. */
export function limitsTakenOut(before: Limits, mine: readonly ClusterLimits[]): { cluster: string; resource: string }[] {
  return mine.flatMap(({ cluster, amounts }) =>
    Object.keys(before[cluster] ?? {}).filter((resource) => !amounts.some((row) => row.resource === resource)).sort(compareNames).map((resource) => ({ cluster, resource })));
}

/** Three-way merge: keeps what the user has typed, and takes everything else from `after`. */
export function rebaseLimits(before: Limits, mine: readonly ClusterLimits[], after: Limits): ClusterLimits[] {
  const kept = mine.flatMap((entry): ClusterLimits[] => {
    const [old, fresh] = [before[entry.cluster], after[entry.cluster]];
    if (old && !fresh && entry.amounts.length === Object.keys(old).length && entry.amounts.every(({ resource, amount }) => textOf(old[resource]) === amount)) return [];
    const rows = entry.amounts.flatMap((row) => {
      if (textOf(old?.[row.resource]) !== row.amount) return [row];
      const now = textOf(fresh?.[row.resource]);
      return now === undefined ? [] : [{ ...row, amount: now }];
    });
    const more = Object.entries(fresh ?? {}).filter(([resource]) => !(resource in (old ?? {})) && !rows.some((row) => row.resource === resource));
    return [{ cluster: entry.cluster, amounts: [...rows, ...more.map(([resource, amount]) => ({ resource, amount: String(amount) }))] }];
  });
  const added = Object.entries(after).filter(([cluster]) => !(cluster in before) && !mine.some((entry) => entry.cluster === cluster));
  return [...kept, ...toFormLimits(Object.fromEntries(added))];
}

const textOf = (amount: QuantityText | undefined): string | undefined => (amount === undefined ? undefined : String(amount));
