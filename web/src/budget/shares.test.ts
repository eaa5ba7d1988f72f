import { expect, it } from "vitest";
import { UNIT } from "../amounts/quantity";
import type { Project } from "../api/types";
import { projectFullness, projectShares } from "./shares";

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
