/** What of a limit is given away and in use, by cluster and resource: pure functions of what the server said. */

import { type Amount, type QuantityText, amountOf, permille } from "../amounts/quantity";
import type { Namespace, Project, Tenant } from "../api/types";

type Amounts = Readonly<Record<string, QuantityText>> | undefined;

export interface Share {
  cluster: string;
  resource: string;
  /** The limit; absent where there is none. */
  hard: Amount | undefined;
  /** Given to those below, and held without an object; of a namespace, what it is charged. */
  allocated: Amount;
  /** What namespaces consume. */
  used: Amount;
}

/** From here on a share is told, and from here on it is urgent; in thousandths. */
export const NOTED = 800;
export const URGENT = 950;

/** How full: of a limit in thousandths, 0 without one. */
export function fullness({ hard, allocated }: Share): number {
  return hard === undefined ? 0 : permille(allocated, hard);
}

/** Worst first; what has no limit comes last. */
export function fullestFirst(shares: readonly Share[]): Share[] {
  return [...shares].sort((a, b) =>
    Number(a.hard === undefined) - Number(b.hard === undefined) || fullness(b) - fullness(a) || inOrder(a.cluster, b.cluster) || inOrder(a.resource, b.resource));
}

export function worst(shares: readonly Share[]): number {
  return shares.reduce((most, share) => Math.max(most, fullness(share)), 0);
}

/** Amounts by `cluster/resource`. */
export type Uses = ReadonlyMap<string, Amount>;

export const useKey = (cluster: string, resource: string): string => `${cluster}/${resource}`;

/** What a namespace is charged: more than it asks for while a smaller quota is not confirmed. */
export function chargeOf({ spec, status }: Namespace): Amounts {
  return status?.cachedSpecHard ?? spec?.hard;
}

export function namespaceShares(namespace: Namespace): Share[] {
  const cluster = namespace.spec?.clusterName ?? "";
  const hard = namespace.spec?.hard ?? {};
  return sorted(Object.keys(hard).map((resource) => ({
    cluster, resource,
    hard: amountOf(hard[resource]),
    allocated: amountOf(namespace.status?.used?.[resource]),
    used: amountOf(namespace.status?.used?.[resource]),
  })));
}

type AmountsByCluster = ReadonlyMap<string, ReadonlyMap<string, Amount>>;

/** What counts against a project without an object. No figure of those below contains it. A tenant has none. */
export function heldIn(giver: Project | Tenant | undefined): AmountsByCluster {
  const { ledger } = (giver?.status ?? {}) as Partial<NonNullable<Project["status"]>>;
  const held = new Map<string, Map<string, Amount>>();
  for (const { clusterName = "", hard = {} } of ledger?.held ?? []) {
    const sums = held.get(clusterName) ?? new Map<string, Amount>();
    for (const [resource, amount] of Object.entries(hard)) sums.set(resource, (sums.get(resource) ?? 0n) + amountOf(amount));
    held.set(clusterName, sums);
  }
  return held;
}

interface KnownShares {
  /** Without what is used, which stands in other objects. */
  shares: readonly Share[];
  worst: number;
}

/** Each version of an object is read once, however often others change. */
const known = new WeakMap<Project, KnownShares>();

function knownShares(project: Project): KnownShares {
  const before = known.get(project);
  if (before) return before;
  const all = shares(project.spec?.clusters, project.status?.clusters, heldIn(project), new Map());
  const fresh = { shares: all, worst: worst(all) };
  known.set(project, fresh);
  return fresh;
}

export function projectShares(project: Project, uses: Uses): readonly Share[] {
  const { shares } = knownShares(project);
  return uses.size === 0 ? shares : shares.map((share) => ({ ...share, used: uses.get(useKey(share.cluster, share.resource)) ?? 0n }));
}

/** How full the fullest limit of a project is. */
export function projectFullness(project: Project): number {
  return knownShares(project).worst;
}

export function tenantShares(tenant: Tenant, uses: Uses): Share[] {
  return shares(tenant.spec?.clusters, tenant.status?.clusters, heldIn(tenant), uses);
}

function shares(
  limits: Readonly<Record<string, { hard?: Amounts | undefined }>> | undefined,
  given: Readonly<Record<string, { used?: Amounts | undefined }>> | undefined,
  held: AmountsByCluster,
  uses: Uses,
): Share[] {
  const all: Share[] = [];
  for (const cluster of new Set([...Object.keys(limits ?? {}), ...Object.keys(given ?? {}), ...held.keys()])) {
    const hard = limits?.[cluster]?.hard ?? {};
    const used = given?.[cluster]?.used ?? {};
    const here = held.get(cluster);
    for (const resource of new Set([...Object.keys(hard), ...Object.keys(used), ...(here?.keys() ?? [])])) {
      const limit = hard[resource];
      all.push({
        cluster, resource,
        hard: limit === undefined ? undefined : amountOf(limit),
        allocated: amountOf(used[resource]) + (here?.get(resource) ?? 0n),
        used: uses.get(useKey(cluster, resource)) ?? 0n,
      });
    }
  }
  return sorted(all);
}

function sorted(shares: Share[]): Share[] {
  return shares.sort((a, b) => inOrder(a.cluster, b.cluster) || inOrder(a.resource, b.resource));
}

/** Of names, which are plain letters: the order of a language costs a hundred times as much. */
export function inOrder(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
