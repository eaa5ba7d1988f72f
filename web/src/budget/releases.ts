/** Amounts that are being released to a project, and what blocks them: pure functions. */

import { type Amount, amountOf } from "../amounts/quantity";
import { conditionsOf } from "../api/conditions";
import { linkOf } from "../api/links";
import type { Namespace, Project } from "../api/types";
import type { TreeNode } from "./forest";
import { chargeOf, compareNames } from "./shares";

export interface Release {
  name: string;
  link: string | undefined;
  /** It is being deleted; its quota is being lowered; it is charged without an object. */
  is: "leaving" | "lowered" | "held";
  /** RFC 3339; undefined if the API does not say. */
  since: string | undefined;
  cluster: string;
  amounts: { resource: string; amount: Amount }[];
  why: string;
}

/** What the deletion of a namespace means. */
export function deletionText({ status }: Namespace): "act.delete.namespace" | "act.delete.adopted" | "act.delete.foreign" {
  switch (status?.clusterNamespace?.provenance) {
    case "Adopted":
    case "Released":
      return "act.delete.adopted";
    case "Foreign":
      return "act.delete.foreign";
    default:
      return "act.delete.namespace";
  }
}

/** What blocks the deletion of a namespace or a project. */
export function deletionBlocker(leaving: Namespace | Project): string {
  const conditions = conditionsOf(leaving);
  const terminating = conditions.find(({ type, message }) => type === "Terminating" && message);
  const unreachable = conditions.find(({ type, status }) => type === "ClusterReachable" && status === "False");
  return terminating?.message || unreachable?.message || leaving.status?.message || "";
}

function releaseOfNamespace(namespace: Namespace): Release | undefined {
  const { metadata, spec } = namespace;
  const charge = Object.entries(chargeOf(namespace) ?? {});
  const place = { name: metadata.name, link: linkOf(metadata.name, metadata.namespace), cluster: spec?.clusterName ?? "" };
  if (metadata.deletionTimestamp) {
    const amounts = charge.map(([resource, amount]) => ({ resource, amount: amountOf(amount) }));
    return { ...place, is: "leaving", since: metadata.deletionTimestamp, amounts, why: deletionBlocker(namespace) };
  }
  const amounts = charge.map(([resource, amount]) => ({ resource, amount: amountOf(amount) - amountOf(spec?.hard?.[resource]) })).filter(({ amount }) => amount > 0n);
  if (amounts.length === 0) return undefined;
  const enforced = conditionsOf(namespace).find(({ type, status }) => type === "QuotaEnforced" && status !== "True");
  return { ...place, is: "lowered", since: enforced?.lastTransitionTime, amounts, why: enforced?.message ?? "" };
}

/** All releases, the oldest first; those without a time come last. */
export function releases({ project, children, namespaces }: TreeNode): Release[] {
  const leaving = children.filter((child) => child.project.metadata.deletionTimestamp).flatMap(({ name, project }): Release[] => {
    const why = conditionsOf(project).find(({ type }) => type === "Terminating")?.message ?? "";
    return Object.entries(project.spec?.clusters ?? {}).map(([cluster, { hard = {} }]) => ({
      name, link: linkOf(name), is: "leaving", since: project.metadata.deletionTimestamp, cluster, why,
      amounts: Object.entries(hard).map(([resource, amount]) => ({ resource, amount: amountOf(amount) })),
    }));
  });
  const held = (project.status?.ledger?.held ?? []).map(({ namespace = "", clusterName = "", hard = {}, reason = "" }): Release => ({
    name: namespace, link: undefined, is: "held", since: undefined, cluster: clusterName, why: reason,
    amounts: Object.entries(hard).map(([resource, amount]) => ({ resource, amount: amountOf(amount) })),
  }));
  const own = namespaces.flatMap((namespace) => releaseOfNamespace(namespace) ?? []);
  return [...leaving, ...own, ...held].sort((a, b) => compareNames(a.since ?? "~", b.since ?? "~"));
}
