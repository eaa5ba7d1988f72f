/** What the children of a project hold of its limits: pure functions. */

import { type Amount, UNIT, amountOf, permille } from "../amounts/quantity";
import { REGISTRY } from "../api/registry";
import { linkOf } from "../api/links";
import type { ChartGroup, ImageNamespace } from "../api/types";
import type { TreeNode } from "./forest";
import { chargeOf, compareNames, usageKey, usedIn } from "./shares";

interface Child {
  name: string;
  link: string;
  phase: string;
}

interface ProjectChild extends Child {
  is: "project" | "namespace";
}

/** An object of a project in the registry, with the plural of its kind. */
export interface Registered {
  plural: string;
  object: ImageNamespace | ChartGroup;
}

/** A child with its part of one limit. */
export interface Holder extends Child {
  cluster: string;
  resource: string;
  hard: Amount;
  limit: Amount;
  /** Its part of the limit, and the unused part of what it holds if that is known, in thousandths. */
  share: number;
  idle: number | undefined;
}

/** A child of a project, whether it holds something or not. */
export interface ChildSummary extends ProjectChild {
  clusters: string[];
  /** The largest part that it holds of any limit, in thousandths. */
  share: number;
}

/** The larger part of its limit first; compares exactly, not the rounded thousandths. */
function largerFirst(a: Holder | undefined, b: Holder | undefined): number {
  const [mine, other] = [(a?.hard ?? 0n) * (b?.limit ?? 1n), (b?.hard ?? 0n) * (a?.limit ?? 1n)];
  return mine > other ? -1 : mine < other ? 1 : 0;
}

interface Grant extends Child {
  cluster: string;
  resource: string;
  hard: Amount;
  used: Amount | undefined;
}

/** What the objects in the registry cost: one of their kind, and the bytes that they may keep. */
function grantsInRegistry({ plural, object: { metadata, spec, status } }: Registered): Grant[] {
  const { name, namespace = "" } = metadata;
  const of = { name, link: `/review/${plural}/${namespace}/${name}`, phase: status?.phase ?? "", cluster: REGISTRY };
  const bytes = Object.entries(spec?.hard ?? {}).map(([resource, amount]): Grant => ({ ...of, resource, hard: amountOf(amount), used: amountOf(status?.used?.[resource]) }));
  return [{ ...of, resource: plural, hard: UNIT, used: UNIT }, ...bytes];
}

function grantsOf({ children, namespaces }: TreeNode): Grant[] {
  const ofProjects = children.flatMap(({ name, project, usage }) => Object.entries(project.spec?.clusters ?? {}).flatMap(([cluster, { hard = {} }]) =>
    Object.entries(hard).map(([resource, amount]): Grant => ({
      ...{ name, link: linkOf(name), phase: project.status?.phase ?? "", cluster, resource },
      hard: amountOf(amount), used: usedIn(usage, cluster, resource),
    }))));
  const ofNamespaces = namespaces.flatMap((namespace) => Object.entries(chargeOf(namespace) ?? {}).map(([resource, amount]): Grant => ({
    ...{ name: namespace.metadata.name, link: linkOf(namespace.metadata.name, namespace.metadata.namespace), phase: namespace.status?.phase ?? "" },
    cluster: namespace.spec?.clusterName ?? "", resource, hard: amountOf(amount), used: amountOf(namespace.status?.used?.[resource]),
  })));
  return [...ofProjects, ...ofNamespaces];
}

function limitsOf({ shares }: TreeNode): Map<string, Amount> {
  return new Map(shares.flatMap(({ cluster, resource, hard }) => (hard === undefined ? [] : [[usageKey(cluster, resource), hard] as const])));
}

/** Each part of each limit, the largest part first. */
export function holders(node: TreeNode, registered: readonly Registered[] = []): Holder[] {
  const limits = limitsOf(node);
  return [...grantsOf(node), ...registered.flatMap(grantsInRegistry)].flatMap(({ used, ...part }): Holder[] => {
    const limit = limits.get(usageKey(part.cluster, part.resource));
    if (limit === undefined || part.hard === 0n) return [];
    return [{ ...part, limit, share: permille(part.hard, limit), idle: used === undefined ? undefined : 1000 - Math.min(1000, permille(used, part.hard)) }];
  }).sort((a, b) => largerFirst(a, b) || compareNames(a.name, b.name));
}

/** All children of a project, the one with the largest part first. */
export function childSummaries(node: TreeNode): ChildSummary[] {
  const largest = new Map<string, Holder>();
  // holders() has the largest part of each child first.
  for (const holder of holders(node)) if (!largest.has(holder.link)) largest.set(holder.link, holder);
  const member = (part: ProjectChild, clusters: string[]): ChildSummary => ({ ...part, clusters, share: largest.get(part.link)?.share ?? 0 });
  return [
    ...node.children.map(({ name, project }) => member(
      { name, link: linkOf(name), is: "project", phase: project.status?.phase ?? "" }, Object.keys(project.spec?.clusters ?? {}).sort(compareNames))),
    ...node.namespaces.map((namespace) => member(
      { name: namespace.metadata.name, link: linkOf(namespace.metadata.name, namespace.metadata.namespace), is: "namespace", phase: namespace.status?.phase ?? "" }, [namespace.spec?.clusterName ?? ""])),
  ].sort((a, b) => largerFirst(largest.get(a.link), largest.get(b.link)) || compareNames(a.name, b.name));
}

/** Counts what is deleted with a project: all projects below it, and all their namespaces and its own. */
export function countBelow({ children, namespaces }: TreeNode): { projects: number; namespaces: number } {
  return children.map(countBelow).reduce((sum, one) => ({ projects: sum.projects + one.projects + 1, namespaces: sum.namespaces + one.namespaces }), { projects: 0, namespaces: namespaces.length });
}
