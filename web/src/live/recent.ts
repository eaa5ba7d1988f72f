/** What happened to an object, as far as the object itself tells: its Events, if it has any, are in a cluster that the console does not talk to. */

import { type Conditioned, conditionsOf } from "../api/conditions";
import type { Condition } from "../api/types";
import type { ManagedFields, Resource } from "./feed";

export type Happening = { when: string } & (
  | { is: "created" }
  | { is: "deleted" }
  | { is: "condition"; condition: Condition }
  | { is: "written"; manager: string; parts: string[] }
);

export type Told = Resource & Conditioned;

/** Parts of a part that are worth telling apart: `spec.clusters`, but `status` alone. */
const DEEP = new Set(["spec", "metadata"]);

/** `spec.clusters`, `metadata.labels`, `status`: where a manager has written. */
export function partsOf({ fieldsV1 = {} }: ManagedFields): string[] {
  const below = (fields: object) => Object.entries(fields).filter(([key]) => key.startsWith("f:")).map(([key, inner]) => ({ name: key.slice(2), inner: inner as object }));
  return below(fieldsV1).flatMap(({ name, inner }) => {
    const parts = DEEP.has(name) ? below(inner) : [];
    return parts.length > 0 ? parts.map((part) => `${name}.${part.name}`) : [name];
  }).sort();
}

/** The newest first. */
export function happenings(told: Told): Happening[] {
  const { metadata } = told;
  const all: Happening[] = [];
  if (metadata.creationTimestamp) all.push({ when: metadata.creationTimestamp, is: "created" });
  if (metadata.deletionTimestamp) all.push({ when: metadata.deletionTimestamp, is: "deleted" });
  for (const condition of conditionsOf(told)) {
    if (condition.lastTransitionTime) all.push({ when: condition.lastTransitionTime, is: "condition", condition });
  }
  for (const fields of metadata.managedFields ?? []) {
    if (fields.time) all.push({ when: fields.time, is: "written", manager: fields.manager ?? "", parts: partsOf(fields) });
  }
  return all.sort((a, b) => Date.parse(b.when) - Date.parse(a.when));
}
