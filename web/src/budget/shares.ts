/** How much of each limit is allocated and used, by cluster and resource: pure functions. */

import { type Amount, type QuantityText, amountOf, permille } from "../amounts/quantity";
import { REGISTRY } from "../api/registry";
import type { Namespace, Project, Tenant } from "../api/types";

type Amounts = Readonly<Record<string, QuantityText>> | undefined;

export interface Share {
  cluster: string;
  resource: string;
  /** The limit; undefined without one. */
  hard: Amount | undefined;
  /** Allocated to children, or held without an object; for a namespace, the same as `used`. */
  allocated: Amount;
  /** What namespaces consume; undefined for the registry, in which they consume nothing. */
  used: Amount | undefined;
}

/** The fullness from which a share is marked as noted, and as urgent; in thousandths. */
export const NOTED = 800;
export const URGENT = 950;

/** How much of the limit is allocated, in thousandths; 0 without a limit. */
export function fullness({ hard, allocated }: Share): number {
  return hard === undefined ? 0 : permille(allocated, hard);
}

/** The fullest first; shares without a limit come last. */
export function fullestFirst(shares: readonly Share[]): Share[] {
  return [...shares].sort((a, b) =>
    Number(a.hard === undefined) - Number(b.hard === undefined) || fullness(b) - fullness(a) || compareNames(a.cluster, b.cluster) || compareNames(a.resource, b.resource));
}

export function worst(shares: readonly Share[]): number {
  return shares.reduce((most, share) => Math.max(most, fullness(share)), 0);
}

/** Amounts by `cluster/resource`. */
export type Usage = ReadonlyMap<string, Amount>;

export const usageKey = (cluster: string, resource: string): string => `${cluster}/${resource}`;

/** What namespaces consume; undefined for the registry. */
export function usedIn(usage: Usage, cluster: string, resource: string): Amount | undefined {
  return cluster === REGISTRY ? undefined : (usage.get(usageKey(cluster, resource)) ?? 0n);
}

/** What a namespace is charged: more than its spec until the cluster has confirmed a smaller quota. */
export function chargeOf({ spec, status }: Namespace): Amounts {
  return status?.cachedSpecHard ?? spec?.hard;
}

/** The shares of a namespace: of what it is granted, and of what it is still charged. */
export function namespaceShares(namespace: Namespace): Share[] {
  const cluster = namespace.spec?.clusterName ?? "";
  const hard = namespace.spec?.hard ?? {};
  const resources = new Set([...Object.keys(hard), ...Object.keys(chargeOf(namespace) ?? {})]);
  return sorted([...resources].map((resource) => ({
    cluster, resource,
    hard: hard[resource] === undefined ? undefined : amountOf(hard[resource]),
    allocated: amountOf(namespace.status?.used?.[resource]),
    used: amountOf(namespace.status?.used?.[resource]),
  })));
}

type AmountsByCluster = ReadonlyMap<string, ReadonlyMap<string, Amount>>;

/** What a project is charged without an object; the amounts of its children do not contain it. Nothing for a tenant. */
export function heldByCluster(source: Project | Tenant | undefined): AmountsByCluster {
  const { ledger } = (source?.status ?? {}) as Partial<NonNullable<Project["status"]>>;
  const held = new Map<string, Map<string, Amount>>();
  for (const { clusterName = "", hard = {} } of ledger?.held ?? []) {
    const sums = held.get(clusterName) ?? new Map<string, Amount>();
    for (const [resource, amount] of Object.entries(hard)) sums.set(resource, (sums.get(resource) ?? 0n) + amountOf(amount));
    held.set(clusterName, sums);
  }
  return held;
}

interface CachedShares {
  /** Without `used`, which comes from other objects. */
  shares: readonly Share[];
  worst: number;
}

/** Computed once for each version of a project, however often others change. */
const cache = new WeakMap<Project, CachedShares>();

function cachedShares(project: Project): CachedShares {
  const before = cache.get(project);
  if (before) return before;
  const all = shares(project.spec?.clusters, project.status?.clusters, heldByCluster(project), new Map());
  const fresh = { shares: all, worst: worst(all) };
  cache.set(project, fresh);
  return fresh;
}

export function projectShares(project: Project, usage: Usage): readonly Share[] {
  const { shares } = cachedShares(project);
  return usage.size === 0 ? shares : shares.map((share) => ({ ...share, used: usedIn(usage, share.cluster, share.resource) }));
}

/** The fullness of the fullest limit of a project. */
export function projectFullness(project: Project): number {
  return cachedShares(project).worst;
}

export function tenantShares(tenant: Tenant, usage: Usage): Share[] {
  return shares(tenant.spec?.clusters, tenant.status?.clusters, heldByCluster(tenant), usage);
}

function shares(
  limits: Readonly<Record<string, { hard?: Amounts | undefined }>> | undefined,
  given: Readonly<Record<string, { used?: Amounts | undefined }>> | undefined,
  held: AmountsByCluster,
  usage: Usage,
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
        used: usedIn(usage, cluster, resource),
      });
    }
  }
  return sorted(all);
}

function sorted(shares: Share[]): Share[] {
  return shares.sort((a, b) => compareNames(a.cluster, b.cluster) || compareNames(a.resource, b.resource));
}

/** Compares names, which are ASCII. localeCompare would be a hundred times slower. */
export function compareNames(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
