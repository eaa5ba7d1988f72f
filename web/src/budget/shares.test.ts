import { expect, it } from "vitest";
import { UNIT } from "../amounts/quantity";
import type { Namespace, Project } from "../api/types";
import { type Usage, namespaceShares, projectFullness, projectShares } from "./shares";

it("counts what is held without an object with what is given", () => {
  const project = {
    metadata: { name: "p" }, spec: { clusters: { c: { hard: { cpu: "10", pods: "10" } } } },
    status: {
      clusters: { c: { used: { pods: "5" } } },
      ledger: { held: [{ uid: "a", clusterName: "c", hard: { pods: "3" } }, { uid: "b", clusterName: "c", hard: { pods: "1" } }, { uid: "d", clusterName: "d", hard: { pods: "2" } }] },
    },
  } as unknown as Project;
  const told = projectShares(project, new Map()).map(({ cluster, resource, hard, allocated }) => [cluster, resource, hard, allocated]);
  expect(told).toEqual([["c", "cpu", 10n * UNIT, 0n], ["c", "pods", 10n * UNIT, 9n * UNIT], ["d", "pods", undefined, 2n * UNIT]]);
  expect(projectFullness(project)).toBe(900);
});

it("has a share of a namespace for what is charged, though it is not asked for any more", () => {
  const namespace = {
    metadata: { name: "web" }, spec: { clusterName: "c", hard: { pods: "5" } }, status: { used: { pods: "2" }, cachedSpecHard: { pods: "5", "requests.cpu": "3" } },
  } as unknown as Namespace;
  expect(namespaceShares(namespace).map(({ resource, hard, used }) => [resource, hard, used])).toEqual([
    ["pods", 5n * UNIT, 2n * UNIT], ["requests.cpu", undefined, 0n],
  ]);
});

it("does not say of the registry that nothing in it is used: namespaces do not use it", () => {
  const project = { metadata: { name: "p" }, spec: { clusters: { c: { hard: { pods: "1" } }, registry: { hard: { "requests.storage": "10Gi" } } } } } as unknown as Project;
  const used = (usage: Usage) => projectShares(project, usage).map((share) => share.used);
  expect(used(new Map())).toEqual([0n, undefined]);
  expect(used(new Map([["c/pods", UNIT]]))).toEqual([UNIT, undefined]);
});
