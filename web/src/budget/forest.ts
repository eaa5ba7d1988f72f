/** Projects as the trees that they form, the fullest first. */

import { type Amount, amountOf } from "../amounts/quantity";
import type { Namespace, Project } from "../api/types";
import { type Share, type Uses, inOrder, projectFullness, projectShares, useKey } from "./shares";

export interface TreeNode {
  name: string;
  project: Project;
  children: TreeNode[];
  namespaces: Namespace[];
  readonly shares: readonly Share[];
  /** How full the fullest of its own limits is, in thousandths. */
  own: number;
  /** The same of itself and all below. */
  worst: number;
  /** What all namespaces below consume. */
  uses: Uses;
}

export interface TreeRow {
  node: TreeNode;
  depth: number;
  open: boolean;
  /** Which it is of those that are shown below the same one, from 1 on, and how many these are. */
  position: number;
  siblings: number;
}

const NOTHING: Uses = new Map();
const known = new WeakMap<Namespace, Uses>();

/** What a namespace consumes: each version of it is read once. */
function usesOf(namespace: Namespace): Uses {
  const before = known.get(namespace);
  if (before) return before;
  const { spec, status } = namespace;
  const fresh = new Map(Object.entries(status?.used ?? {}).map(([resource, amount]) => [useKey(spec?.clusterName ?? "", resource), amountOf(amount)]));
  known.set(namespace, fresh);
  return fresh;
}

/** Shares are worked out for what is looked at: of thousands of projects, a few dozen. */
class ForestNode implements TreeNode {
  readonly name: string;
  readonly children: TreeNode[] = [];
  readonly namespaces: Namespace[] = [];
  own = 0;
  worst = 0;
  uses = NOTHING;
  #shares: readonly Share[] | undefined;

  constructor(readonly project: Project) {
    this.name = project.metadata.name;
  }

  get shares(): readonly Share[] {
    return (this.#shares ??= projectShares(this.project, this.uses));
  }
}

/** Roots, and whatever lies below something that is not seen. */
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
  roots.forEach(fill);
  return sortFullestFirst(roots);
}

function fill(node: TreeNode): void {
  node.children.forEach(fill);
  const parts = [...node.children.map((child) => child.uses), ...node.namespaces.map(usesOf)].filter((uses) => uses.size > 0);
  if (parts.length > 0) {
    const sum = new Map<string, Amount>();
    for (const part of parts) for (const [key, amount] of part) add(sum, key, amount);
    node.uses = sum;
  }
  node.own = projectFullness(node.project);
  node.worst = node.children.reduce((most, child) => Math.max(most, child.worst), node.own);
  sortFullestFirst(node.children);
}

/** Counts an amount with those of its key. */
export function add(uses: Map<string, Amount>, key: string, amount: Amount): void {
  uses.set(key, (uses.get(key) ?? 0n) + amount);
}

function sortFullestFirst(nodes: TreeNode[]): TreeNode[] {
  return nodes.sort((a, b) => b.worst - a.worst || inOrder(a.name, b.name));
}

/** Whether a project is another one or lies below it. */
export function liesIn(all: ReadonlyMap<string, Project>, name: string, above: string): boolean {
  const line = new Set<string>();
  for (let at = name; at !== "" && !line.has(at); at = all.get(at)?.spec?.parentProjectName ?? "") {
    if (at === above) return true;
    line.add(at);
  }
  return false;
}

/** The rows that are shown: what is open, or, with a search, what matches and what lies above it. */
export function rows(roots: readonly TreeNode[], closed: ReadonlySet<string>, search: string): TreeRow[] {
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

/** Namespaces that a search finds, by our name or that in their cluster. */
export function namespacesFound(namespaces: Iterable<Namespace>, search: string): Namespace[] {
  const wanted = search.trim().toLowerCase();
  const isFound = ({ metadata, spec }: Namespace) => [metadata.name, spec?.namespace].some((text) => text?.toLowerCase().includes(wanted));
  return wanted === "" ? [] : [...namespaces].filter(isFound).sort((a, b) => inOrder(a.metadata.name, b.metadata.name));
}

/** In the order that they had: what somebody points at does not go away under him. Who is new comes last among his. */
export function asBefore(nodes: TreeNode[], before: readonly TreeNode[]): TreeNode[] {
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
