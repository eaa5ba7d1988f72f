/** What a project, or a tenant below its ceilings, has left to give, as far as it is known: pure functions. */

import { type Amount, type QuantityText, amountOf } from "../amounts/quantity";
import type { Project, Tenant } from "../api/types";
import { heldIn } from "./shares";

type Held = Readonly<Record<string, Readonly<Record<string, QuantityText>>>>;

/** What gives to those below it. */
export type Giver = Project | Tenant;

/** Of a resource in a cluster, with what whoever asks already has of it; `undefined` where nothing is limited. */
export function leftIn(giver: Giver | undefined, cluster: string, resource: string, own: Held = {}): Amount | undefined {
  const hard = giver?.spec?.clusters?.[cluster]?.hard?.[resource];
  if (hard === undefined) return undefined;
  const taken = amountOf(giver?.status?.clusters?.[cluster]?.used?.[resource]) + (heldIn(giver).get(cluster)?.get(resource) ?? 0n);
  const left = amountOf(hard) - taken + amountOf(own[cluster]?.[resource]);
  return left > 0n ? left : 0n;
}
