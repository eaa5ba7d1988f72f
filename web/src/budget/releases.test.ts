import { expect, it } from "vitest";
import { UNIT } from "../amounts/quantity";
import type { Namespace, Project } from "../api/types";
import { forest } from "./forest";
import { deletionBlocker, deletionText, releases } from "./releases";

const SINCE = "2026-03-05T00:00:00Z";

function namespace(name: string, more: { deleted?: string; hard?: string; charged: string; conditions?: object[] }): Namespace {
  const { deleted, hard = more.charged, charged, conditions = [] } = more;
  return {
    metadata: { name, namespace: "top", uid: name, resourceVersion: "1", ...(deleted && { deletionTimestamp: deleted }) },
    spec: { clusterName: "c", hard: { pods: hard } }, status: { cachedSpecHard: { pods: charged }, conditions },
  } as unknown as Namespace;
}

it("tells what goes, what was lowered and what is held, the longest first", () => {
  const project = {
    metadata: { name: "top", uid: "top", resourceVersion: "1" }, spec: { clusters: { c: { hard: { pods: "100" } } } },
    status: { ledger: { held: [{ uid: "h", namespace: "lost", clusterName: "c", hard: { pods: "7" }, reason: "given up" }] } },
  } as unknown as Project;
  const [top] = forest([project], [
    namespace("steady", { charged: "5" }),
    namespace("going", { charged: "3", deleted: SINCE, conditions: [{ type: "Terminating", status: "True", message: "2 pods remain" }] }),
    namespace("less", { hard: "2", charged: "6", conditions: [{ type: "QuotaEnforced", status: "False", message: "not yet", lastTransitionTime: "2026-03-04T00:00:00Z" }] }),
  ]);
  const told = top ? releases(top).map(({ name, is, amounts, why }) => [name, is, (amounts[0]?.amount ?? 0n) / UNIT, why]) : [];
  expect(told).toEqual([["less", "lowered", 4n, "not yet"], ["going", "leaving", 3n, "2 pods remain"], ["lost", "held", 7n, "given up"]]);
});

it("tells of a project that goes what remains in it", () => {
  const project = { metadata: { name: "top" }, status: { message: "it is going", conditions: [{ type: "Terminating", status: "True", message: "2 projects remain" }] } } as unknown as Project;
  expect(deletionBlocker(project)).toBe("2 projects remain");
  expect(deletionBlocker({ ...project, status: { ...project.status, conditions: [] } } as Project)).toBe("it is going");
});

it("says what becomes of the namespace in its cluster, by how it came to be there", () => {
  const of = (provenance?: string) => deletionText({ metadata: {}, status: provenance && { clusterNamespace: { uid: "u", provenance } } } as unknown as Namespace);
  expect([of(), of("Made"), of("Imported")]).toEqual(["act.delete.namespace", "act.delete.namespace", "act.delete.namespace"]);
  expect([of("Adopted"), of("Released"), of("Foreign")]).toEqual(["act.delete.adopted", "act.delete.adopted", "act.delete.foreign"]);
});
