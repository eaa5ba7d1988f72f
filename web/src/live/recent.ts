/** Recent changes of an object, from the object itself: its Events, if any, are in a cluster that the console cannot reach. */

import { type WithConditions, conditionsOf } from "../api/conditions";
import type { Condition } from "../api/types";
import type { ManagedFields, Resource } from "./feed";

export type RecentChange = { when: string } & (
  | { is: "created" }
  | { is: "deleted" }
  | { is: "condition"; condition: Condition }
  | { is: "written"; manager: string; parts: string[] }
);

export type ObjectWithConditions = Resource & WithConditions;

/** Fields whose children are listed one by one: `spec.clusters`, but only `status`. */
const DEEP = new Set(["spec", "metadata"]);

/** The paths of the fields that a manager has written: `spec.clusters`, `metadata.labels`, `status`. */
export function fieldPathsOf({ fieldsV1 = {} }: ManagedFields): string[] {
  const below = (fields: object) => Object.entries(fields).filter(([key]) => key.startsWith("f:")).map(([key, inner]) => ({ name: key.slice(2), inner: inner as object }));
  return below(fieldsV1).flatMap(({ name, inner }) => {
    const parts = DEEP.has(name) ? below(inner) : [];
    return parts.length > 0 ? parts.map((part) => `${name}.${part.name}`) : [name];
  }).sort();
}

/** The changes, newest first. */
export function recentChanges(object: ObjectWithConditions): RecentChange[] {
  const { metadata } = object;
  const all: RecentChange[] = [];
  if (metadata.creationTimestamp) all.push({ when: metadata.creationTimestamp, is: "created" });
  if (metadata.deletionTimestamp) all.push({ when: metadata.deletionTimestamp, is: "deleted" });
  for (const condition of conditionsOf(object)) {
    if (condition.lastTransitionTime) all.push({ when: condition.lastTransitionTime, is: "condition", condition });
  }
  for (const fields of metadata.managedFields ?? []) {
    if (fields.time) all.push({ when: fields.time, is: "written", manager: fields.manager ?? "", parts: fieldPathsOf(fields) });
  }
  return all.sort((a, b) => Date.parse(b.when) - Date.parse(a.when));
}
