import { expect, it } from "vitest";
import { UNIT } from "../amounts/quantity";
import type { Project, Tenant } from "../api/types";
import { remainingIn } from "./remaining";

const project = { metadata: { name: "p" }, spec: { clusters: { c: { hard: { pods: "10" } } } }, status: { clusters: { c: { used: { pods: "7", cpu: "1" } } } } } as unknown as Project;

it("tells what is left of a limit, and of none nothing", () => {
  expect(remainingIn(project, "c", "pods")).toBe(3n * UNIT);
  expect(remainingIn(project, "c", "pods", { c: { pods: "2" } })).toBe(5n * UNIT);
  expect([remainingIn(project, "c", "cpu"), remainingIn(project, "d", "pods"), remainingIn(undefined, "c", "pods")]).toEqual([undefined, undefined, undefined]);
});

it("counts what is held without an object as taken", () => {
  const held = [{ uid: "a", clusterName: "c", hard: { pods: "1" } }, { uid: "b", clusterName: "c", hard: { pods: "1" } }, { uid: "d", clusterName: "d", hard: { pods: "9" } }];
  const holding = { ...project, status: { ...project.status, ledger: { held } } } as unknown as Project;
  expect(remainingIn(holding, "c", "pods")).toBe(1n * UNIT);
});

it("does not owe anything where more is given than there is", () => {
  const over = { ...project, spec: { clusters: { c: { hard: { pods: "5" } } } } } as unknown as Project;
  expect(remainingIn(over, "c", "pods")).toBe(0n);
});

it("tells what a tenant's ceilings leave to a root project", () => {
  const tenant = { ...project, metadata: { name: "acme" } } as unknown as Tenant;
  expect(remainingIn(tenant, "c", "pods", { c: { pods: "4" } })).toBe(7n * UNIT);
});
