/** What a project has left to give, as far as it is known: pure functions. */

import { type Amount, type QuantityText, amountOf } from "../amounts/quantity";
import type { Project } from "../api/types";

type Held = Readonly<Record<string, Readonly<Record<string, QuantityText>>>>;

/** Of a resource in a cluster, with what whoever asks already has of it; `undefined` where nothing is limited. */
export function leftIn(project: Project | undefined, cluster: string, resource: string, own: Held = {}): Amount | undefined {
  const hard = project?.spec?.clusters?.[cluster]?.hard?.[resource];
  if (hard === undefined) return undefined;
  const left = amountOf(hard) - amountOf(project?.status?.clusters?.[cluster]?.used?.[resource]) + amountOf(own[cluster]?.[resource]);
  return left > 0n ? left : 0n;
}
