import { expect, it } from "vitest";
import type { ChartGroup, ImageNamespace, Namespace, Project } from "../api/types";
import { type TreeNode, forest } from "./forest";
import { childSummaries, countBelow, holders } from "./holders";

const project = (name: string, parent: string, hard: Record<string, string>): Project => ({
  metadata: { name, uid: name, resourceVersion: "1" }, spec: { parentProjectName: parent, clusters: { c: { hard } } }, status: { phase: "Active" },
} as unknown as Project);
const namespace = (name: string, of: string, hard: Record<string, string>, used: Record<string, string> = {}): Namespace => ({
  metadata: { name, namespace: of, uid: name, resourceVersion: "1" }, spec: { clusterName: "c", hard }, status: { used },
} as unknown as Namespace);

const top = (): TreeNode => {
  const [node] = forest(
    [project("top", "", { pods: "10" }), project("child", "top", { pods: "4" }), project("grandchild", "child", {})],
    [namespace("busy", "top", { pods: "5", cpu: "9" }, { pods: "1" }), namespace("free", "top", { cpu: "1" }), namespace("zero", "top", { pods: "0" }), namespace("deep", "grandchild", {})],
  );
  if (!node) throw new Error("no tree");
  return node;
};

it("tells who holds how much of each limit, the largest first", () => {
  expect(holders(top()).map(({ name, resource, share, idle }) => [name, resource, share, idle])).toEqual([["busy", "pods", 500, 800], ["child", "pods", 400, 1000]]);
});

it("orders parts exactly that are equal in thousandths", () => {
  const [node] = forest(
    [project("top", "", { pods: "100000", cpu: "1000" })],
    [namespace("a", "top", { pods: "3" }), namespace("b", "top", { pods: "40" }), namespace("c", "top", { cpu: "500m" }), namespace("d", "top", {})],
  );
  if (!node) throw new Error("no tree");
  expect(holders(node).map(({ name, share }) => [name, share])).toEqual([["c", 0], ["b", 0], ["a", 0]]);
  expect(childSummaries(node).map(({ name }) => name)).toEqual(["c", "b", "a", "d"]);
});

it("names all that lies in it, also what holds nothing of what is limited", () => {
  expect(childSummaries(top()).map(({ name, is, share, link }) => [name, is, share, link])).toEqual([
    ["busy", "namespace", 500, "/projects/top/namespaces/busy"], ["child", "project", 400, "/projects/child"],
    ["free", "namespace", 0, "/projects/top/namespaces/free"], ["zero", "namespace", 0, "/projects/top/namespaces/zero"],
  ]);
});

it("counts what goes with it at every depth", () => {
  expect(countBelow(top())).toEqual({ projects: 2, namespaces: 4 });
});

it("tells what the objects in the registry hold of it: one of their kind, and the bytes that they may keep", () => {
  const [node] = forest([{
    metadata: { name: "top", uid: "top", resourceVersion: "1" },
    spec: { clusters: { registry: { hard: { imagenamespaces: "4", "requests.storage": "10Gi" } } } },
  } as unknown as Project], []);
  if (!node) throw new Error("no tree");
  const image = { metadata: { name: "backend", namespace: "top" }, spec: { hard: { "requests.storage": "8Gi" } }, status: { phase: "Available", used: { "requests.storage": "2Gi" } } };
  const found = holders(node, [{ plural: "imagenamespaces", object: image as unknown as ImageNamespace }, { plural: "chartgroups", object: { metadata: { name: "charts", namespace: "top" } } as ChartGroup }]);
  expect(found.map(({ name, link, cluster, resource, share, idle }) => [name, link, `${cluster}/${resource}`, share, idle])).toEqual([
    ["backend", "/review/imagenamespaces/top/backend", "registry/requests.storage", 800, 750],
    ["backend", "/review/imagenamespaces/top/backend", "registry/imagenamespaces", 250, 0],
  ]);
});

it("does not take what a project below holds of the registry for idle", () => {
  const registry = { clusters: { registry: { hard: { "requests.storage": "8Gi" } } } };
  const of = (name: string, parentProjectName: string) => ({ metadata: { name, uid: name, resourceVersion: "1" }, spec: { parentProjectName, ...registry } } as unknown as Project);
  const [node] = forest([of("top", ""), of("child", "top")], []);
  expect(node && holders(node).map(({ name, idle }) => [name, idle])).toEqual([["child", undefined]]);
});
