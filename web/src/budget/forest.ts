/** Projects as trees, the fullest first. */

import { type Amount, amountOf } from "../amounts/quantity";
import type { Namespace, Project } from "../api/types";
import { type Share, type Usage, compareNames, projectFullness, projectShares, usageKey } from "./shares";

export interface TreeNode {
  name: string;
  project: Project;
  children: TreeNode[];
  namespaces: Namespace[];
  readonly shares: readonly Share[];
  /** The fullness of its fullest limit, in thousandths. */
  own: number;
  /** The highest `own` of this project and all below it. */
  worst: number;
  /** The sum of what all namespaces below consume. */
  usage: Usage;
}

export interface TreeRow {
  node: TreeNode;
  depth: number;
  open: boolean;
  /** Its position among the visible rows of the same parent, from 1, and their number. */
  position: number;
  siblings: number;
}

const NO_USAGE: Usage = new Map();
const usageCache = new WeakMap<Namespace, Usage>();

/** What a namespace consumes; computed once for each version of the object. */
function usageOf(namespace: Namespace): Usage {
  const before = usageCache.get(namespace);
  if (before) return before;
  const { spec, status } = namespace;
  const fresh = new Map(Object.entries(status?.used ?? {}).map(([resource, amount]) => [usageKey(spec?.clusterName ?? "", resource), amountOf(amount)]));
  usageCache.set(namespace, fresh);
  return fresh;
}

/** Computes shares on demand: of thousands of projects only a few dozen are visible. */
class ForestNode implements TreeNode {
  readonly name: string;
  readonly children: TreeNode[] = [];
  readonly namespaces: Namespace[] = [];
  own = 0;
  worst = 0;
  usage = NO_USAGE;
  #shares: readonly Share[] | undefined;

  constructor(readonly project: Project) {
    this.name = project.metadata.name;
  }

  get shares(): readonly Share[] {
    return (this.#shares ??= projectShares(this.project, this.usage));
  }
}

/** The trees of all projects. A project whose parent the user may not see is a root. */
export function forest(projects: Iterable<Project>, namespaces: Iterable<Namespace>): TreeNode[] {
  const nodes = new Map<string, ForestNode>();
  for (const project of projects) {
    const node = new ForestNode(project);
    nodes.set(node.name, node);
  }
  for (const namespace of namespaces) nodes.get(namespace.metadata.namespace ?? "")?.namespaces.push(namespace);
  const roots: TreeNode[] = [];
  for (const node of nodes.values()) {
    const parent = nodes.get(node.project.spec?.parentProjectName ?? "");
    if (parent && parent !== node) parent.children.push(node);
    else roots.push(node);
  }
  roots.forEach(sumUsage);
  return sortFullestFirst(roots);
}

function sumUsage(node: TreeNode): void {
  node.children.forEach(sumUsage);
  const parts = [...node.children.map((child) => child.usage), ...node.namespaces.map(usageOf)].filter((usage) => usage.size > 0);
  if (parts.length > 0) {
    const sum = new Map<string, Amount>();
    for (const part of parts) for (const [key, amount] of part) addUsage(sum, key, amount);
    node.usage = sum;
  }
  node.own = projectFullness(node.project);
  node.worst = node.children.reduce((most, child) => Math.max(most, child.worst), node.own);
  sortFullestFirst(node.children);
}

/** Adds an amount to the sum of its key. */
export function addUsage(usage: Map<string, Amount>, key: string, amount: Amount): void {
  usage.set(key, (usage.get(key) ?? 0n) + amount);
}

function sortFullestFirst(nodes: TreeNode[]): TreeNode[] {
  return nodes.sort((a, b) => b.worst - a.worst || compareNames(a.name, b.name));
}

/** Whether a project is `above` or one of its descendants. */
export function isWithin(all: ReadonlyMap<string, Project>, name: string, above: string): boolean {
  const line = new Set<string>();
  for (let at = name; at !== "" && !line.has(at); at = all.get(at)?.spec?.parentProjectName ?? "") {
    if (at === above) return true;
    line.add(at);
  }
  return false;
}

/** The visible rows: children of open rows, or, with a search, the matches and their ancestors. */
export function visibleRows(roots: readonly TreeNode[], closed: ReadonlySet<string>, search: string): TreeRow[] {
  const wanted = search.trim().toLowerCase();
  const shown: TreeRow[] = [];
  const walk = (nodes: readonly TreeNode[], depth: number): boolean => {
    const mine: TreeRow[] = [];
    for (const node of nodes) {
      const at = shown.length;
      const open = wanted !== "" || !closed.has(node.name);
      const row = { node, depth, open, position: mine.length + 1, siblings: 0 };
      shown.push(row);
      const isFoundBelow = open && walk(node.children, depth + 1);
      if (isFoundBelow || wanted === "" || matches(node, wanted)) mine.push(row);
      else shown.length = at;
    }
    for (const row of mine) row.siblings = mine.length;
    return mine.length > 0;
  };
  walk(roots, 0);
  return shown;
}

/** Namespaces that match a search by their name here or in their cluster. */
export function searchNamespaces(namespaces: Iterable<Namespace>, search: string): Namespace[] {
  const wanted = search.trim().toLowerCase();
  const isFound = ({ metadata, spec }: Namespace) => [metadata.name, spec?.namespace].some((text) => text?.toLowerCase().includes(wanted));
  return wanted === "" ? [] : [...namespaces].filter(isFound).sort((a, b) => compareNames(a.metadata.name, b.metadata.name));
}

/** Restores the previous order, so that rows do not move under the pointer. New projects come last among their siblings. */
export function keepOrder(nodes: TreeNode[], before: readonly TreeNode[]): TreeNode[] {
  const places = new Map<string, number>();
  const note = (all: readonly TreeNode[]): void => all.forEach((node) => {
    places.set(node.name, places.size);
    note(node.children);
  });
  note(before);
  const placeOf = ({ name }: TreeNode) => places.get(name) ?? places.size;
  const sort = (all: TreeNode[]): TreeNode[] => {
    for (const node of all) sort(node.children);
    return all.sort((a, b) => placeOf(a) - placeOf(b));
  };
  return sort(nodes);
}

function matches({ name, project: { spec } }: TreeNode, wanted: string): boolean {
  return [name, spec?.displayName, spec?.tenantID].some((text) => text?.toLowerCase().includes(wanted));
}
