/** Who holds what of a project: pure functions of what the server said. */

import { type Amount, amountOf, permille } from "../amounts/quantity";
import { linkOf } from "../api/links";
import type { TreeNode } from "./forest";
import { chargeOf, inOrder, useKey } from "./shares";

interface Part {
  name: string;
  link: string;
  is: "project" | "namespace";
  phase: string;
}

/** A part of a limit. */
export interface Holder extends Part {
  cluster: string;
  resource: string;
  hard: Amount;
  limit: Amount;
  /** Of the limit, and of its own part what is not used; in thousandths. */
  share: number;
  idle: number;
}

/** Whatever lies directly in a project, whether it holds something or not. */
export interface Member extends Part {
  clusters: string[];
  /** Its largest part of any limit, in thousandths. */
  share: number;
}

/** The larger part of its limit first, exactly: thousandths make equal what is not. */
function largerFirst(a: Holder | undefined, b: Holder | undefined): number {
  const [mine, other] = [(a?.hard ?? 0n) * (b?.limit ?? 1n), (b?.hard ?? 0n) * (a?.limit ?? 1n)];
  return mine > other ? -1 : mine < other ? 1 : 0;
}

interface Given extends Part {
  cluster: string;
  resource: string;
  hard: Amount;
  used: Amount;
}

function given({ children, namespaces }: TreeNode): Given[] {
  const ofProjects = children.flatMap(({ name, project, uses }) => Object.entries(project.spec?.clusters ?? {}).flatMap(([cluster, { hard = {} }]) =>
    Object.entries(hard).map(([resource, amount]): Given => ({
      ...{ name, link: linkOf(name), is: "project", phase: project.status?.phase ?? "", cluster, resource },
      hard: amountOf(amount), used: uses.get(useKey(cluster, resource)) ?? 0n,
    }))));
  const ofNamespaces = namespaces.flatMap((namespace) => Object.entries(chargeOf(namespace) ?? {}).map(([resource, amount]): Given => ({
    ...{ name: namespace.metadata.name, link: linkOf(namespace.metadata.name, namespace.metadata.namespace), is: "namespace", phase: namespace.status?.phase ?? "" },
    cluster: namespace.spec?.clusterName ?? "", resource, hard: amountOf(amount), used: amountOf(namespace.status?.used?.[resource]),
  })));
  return [...ofProjects, ...ofNamespaces];
}

function limitsOf({ shares }: TreeNode): Map<string, Amount> {
  return new Map(shares.flatMap(({ cluster, resource, hard }) => (hard === undefined ? [] : [[useKey(cluster, resource), hard] as const])));
}

/** Each part of each limit, the largest first. */
export function holders(node: TreeNode): Holder[] {
  const limits = limitsOf(node);
  return given(node).flatMap(({ used, ...part }): Holder[] => {
    const limit = limits.get(useKey(part.cluster, part.resource));
    if (limit === undefined || part.hard === 0n) return [];
    return [{ ...part, limit, share: permille(part.hard, limit), idle: 1000 - Math.min(1000, permille(used, part.hard)) }];
  }).sort((a, b) => largerFirst(a, b) || inOrder(a.name, b.name));
}

/** All that lies directly in it, whoever holds the most first. */
export function membersOf(node: TreeNode): Member[] {
  const largest = new Map<string, Holder>();
  // The largest part of each comes first.
  for (const holder of holders(node)) if (!largest.has(holder.link)) largest.set(holder.link, holder);
  const member = (part: Part, clusters: string[]): Member => ({ ...part, clusters, share: largest.get(part.link)?.share ?? 0 });
  return [
    ...node.children.map(({ name, project }) => member(
      { name, link: linkOf(name), is: "project", phase: project.status?.phase ?? "" }, Object.keys(project.spec?.clusters ?? {}).sort(inOrder))),
    ...node.namespaces.map((namespace) => member(
      { name: namespace.metadata.name, link: linkOf(namespace.metadata.name, namespace.metadata.namespace), is: "namespace", phase: namespace.status?.phase ?? "" }, [namespace.spec?.clusterName ?? ""])),
  ].sort((a, b) => largerFirst(largest.get(a.link), largest.get(b.link)) || inOrder(a.name, b.name));
}

/** What goes with a project: the projects below it, and all their namespaces and its own. */
export function below({ children, namespaces }: TreeNode): { projects: number; namespaces: number } {
  return children.map(below).reduce((sum, one) => ({ projects: sum.projects + one.projects + 1, namespaces: sum.namespaces + one.namespaces }), { projects: 0, namespaces: namespaces.length });
}
