import { expect, it } from "vitest";
import { UNIT } from "../amounts/quantity";
import type { Namespace, Project } from "../api/types";
import { forest, isWithin, keepOrder, searchNamespaces, visibleRows } from "./forest";
import { fullness } from "./shares";

const meta = (name: string, namespace?: string) => ({ name, uid: name, resourceVersion: "1", ...(namespace && { namespace }) });

function project(name: string, parent: string, hard: string, used: string): Project {
  return {
    metadata: meta(name),
    spec: { displayName: name, tenantID: "t", members: [], parentProjectName: parent, clusters: { c: { hard: { pods: hard } } } },
    status: { clusters: { c: { used: { pods: used } } } },
  } as unknown as Project;
}

function namespace(name: string, of: string, used: string): Namespace {
  return { metadata: meta(name, of), spec: { clusterName: "c", hard: { pods: "9" } }, status: { used: { pods: used } } } as unknown as Namespace;
}

const world = () => forest(
  [project("calm", "", "10", "1"), project("top", "", "100", "50"), project("full", "top", "20", "20"), project("lost", "unseen", "5", "0")],
  [namespace("a", "full", "3"), namespace("b", "top", "4"), namespace("c", "elsewhere", "1")],
);

it("finds namespaces by either of their names, and none without a search", () => {
  const inside = [namespace("c-web", "top", "1"), { ...namespace("c-data", "top", "1"), spec: { namespace: "old-web" } } as Namespace, namespace("c-batch", "full", "1")];
  expect(searchNamespaces(inside, " WEB ").map(({ metadata }) => metadata.name)).toEqual(["c-data", "c-web"]);
  expect(searchNamespaces(inside, " ")).toEqual([]);
});

it("puts the fullest first and sums up what is used below", () => {
  const roots = world();
  expect(roots.map((node) => node.name)).toEqual(["top", "calm", "lost"]);
  const [top] = roots;
  expect([top?.own, top?.worst, top?.shares[0]?.used]).toEqual([500, 1000, 7n * UNIT]);
});

it("shows what is open, and with a search what lies above what matches", () => {
  const names = (closed: string[], search: string) => visibleRows(world(), new Set(closed), search).map(({ node, depth }) => `${depth}${node.name}`);
  expect(names([], "")).toEqual(["0top", "1full", "0calm", "0lost"]);
  expect(names(["top"], "")).toEqual(["0top", "0calm", "0lost"]);
  expect(names(["top"], "FUL")).toEqual(["0top", "1full"]);
  expect(names([], "nothing")).toEqual([]);
});

it("tells each row's place among those beside it that are shown", () => {
  const places = (search: string) => visibleRows(world(), new Set(), search).map(({ node, position, siblings }) => `${node.name} ${position}/${siblings}`);
  expect(places("")).toEqual(["top 1/3", "full 1/1", "calm 2/3", "lost 3/3"]);
  expect(places("l")).toEqual(["top 1/3", "full 1/1", "calm 2/3", "lost 3/3"]);
  expect(places("lost")).toEqual(["lost 1/1"]);
});

it("keeps an order, with what is new at the end of its own, until it is let go", () => {
  const grown = () => forest(
    [project("calm", "", "10", "10"), project("new", "", "10", "9"), project("top", "", "100", "0"), project("full", "top", "20", "0"), project("fresh", "top", "5", "5")], [],
  );
  const names = (nodes: ReturnType<typeof world>) => visibleRows(nodes, new Set(), "").map(({ node }) => node.name);
  expect(names(grown())).toEqual(["calm", "top", "fresh", "full", "new"]);
  expect(names(keepOrder(grown(), world()))).toEqual(["top", "full", "fresh", "calm", "new"]);
});

it("knows nothing of fullness where there is no limit", () => {
  expect(fullness({ cluster: "c", resource: "pods", hard: undefined, allocated: UNIT, used: 0n })).toBe(0);
});

it("knows what lies below a project, at any depth", () => {
  const all = new Map([project("top", "", "9", "0"), project("mid", "top", "9", "0"), project("low", "mid", "9", "0"), project("lost", "unseen", "9", "0"), project("a", "b", "9", "0"), project("b", "a", "9", "0")]
    .map((one) => [one.metadata.name, one]));
  expect(["top", "mid", "low", "lost", "a"].map((name) => isWithin(all, name, "top"))).toEqual([true, true, true, false, false]);
  expect(isWithin(all, "top", "low")).toBe(false);
});
