/** How much a project or a tenant has left to grant: pure functions. */

import { type Amount, amountOf } from "../amounts/quantity";
import type { Project, Tenant } from "../api/types";
import type { Limits } from "./edits";
import { heldByCluster } from "./shares";

/** What grants budget to the objects below it. */
export type BudgetSource = Project | Tenant;

/** How much of a resource in a cluster is left, including `own`, which the caller holds already. `undefined` without a limit. */
export function remainingIn(source: BudgetSource | undefined, cluster: string, resource: string, own: Limits = {}): Amount | undefined {
  const hard = source?.spec?.clusters?.[cluster]?.hard?.[resource];
  if (hard === undefined) return undefined;
  const taken = amountOf(source?.status?.clusters?.[cluster]?.used?.[resource]) + (heldByCluster(source).get(cluster)?.get(resource) ?? 0n);
  const left = amountOf(hard) - taken + amountOf(own[cluster]?.[resource]);
  return left > 0n ? left : 0n;
}
