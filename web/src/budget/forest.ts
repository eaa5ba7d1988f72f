/** Projects as the trees that they form, the fullest first. */

import { type Amount, amountOf } from "../amounts/quantity";
import type { Namespace, Project } from "../api/types";
import { type Share, inOrder, projectShares, useKey, worst } from "./shares";

export interface TreeNode {
  name: string;
  project: Project;
  children: TreeNode[];
  namespaces: Namespace[];
  shares: Share[];
  /** How full the fullest of its own limits is, in thousandths. */
  own: number;
  /** The same of itself and all below. */
  worst: number;
  /** What all namespaces below consume. */
  uses: Map<string, Amount>;
}

export interface TreeRow {
  node: TreeNode;
  depth: number;
  open: boolean;
}

/** Roots, and whatever lies below something that is not seen. */
export function forest(projects: Iterable<Project>, namespaces: Iterable<Namespace>): TreeNode[] {
  const nodes = new Map<string, TreeNode>();
  for (const project of projects) {
    const { name } = project.metadata;
    nodes.set(name, { name, project, children: [], namespaces: [], shares: [], own: 0, worst: 0, uses: new Map() });
  }
  for (const namespace of namespaces) nodes.get(namespace.metadata.namespace ?? "")?.namespaces.push(namespace);
  const roots: TreeNode[] = [];
  for (const node of nodes.values()) {
    const parent = nodes.get(node.project.spec?.parentProjectName ?? "");
    if (parent && parent !== node) parent.children.push(node);
    else roots.push(node);
  }
  roots.forEach(fill);
  return fullestFirst(roots);
}

function fill(node: TreeNode): void {
  node.children.forEach(fill);
  for (const child of node.children) for (const [key, amount] of child.uses) add(node.uses, key, amount);
  for (const { spec, status } of node.namespaces) {
    for (const [resource, amount] of Object.entries(status?.used ?? {})) {
      add(node.uses, useKey(spec?.clusterName ?? "", resource), amountOf(amount));
    }
  }
  node.shares = projectShares(node.project, node.uses);
  node.own = worst(node.shares);
  node.worst = node.children.reduce((most, child) => Math.max(most, child.worst), node.own);
  fullestFirst(node.children);
}

/** Counts an amount with those of its key. */
export function add(uses: Map<string, Amount>, key: string, amount: Amount): void {
  uses.set(key, (uses.get(key) ?? 0n) + amount);
}

function fullestFirst(nodes: TreeNode[]): TreeNode[] {
  return nodes.sort((a, b) => b.worst - a.worst || inOrder(a.name, b.name));
}

/** The rows that are shown: what is open, or, with a search, what matches and what lies above it. */
export function rows(roots: readonly TreeNode[], closed: ReadonlySet<string>, search: string): TreeRow[] {
  const wanted = search.trim().toLowerCase();
  const shown: TreeRow[] = [];
  const walk = (node: TreeNode, depth: number): boolean => {
    const at = shown.length;
    const open = wanted !== "" || !closed.has(node.name);
    shown.push({ node, depth, open });
    let found = wanted === "" || matches(node, wanted);
    if (open) for (const child of node.children) found = walk(child, depth + 1) || found;
    if (!found) shown.length = at;
    return found;
  };
  for (const root of roots) walk(root, 0);
  return shown;
}

function matches({ name, project: { spec } }: TreeNode, wanted: string): boolean {
  return [name, spec?.displayName, spec?.tenantID].some((text) => text?.toLowerCase().includes(wanted));
}
