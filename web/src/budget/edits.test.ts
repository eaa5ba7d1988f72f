import { expect, it } from "vitest";
import { isEmptied, limitChanges, limitsTakenOut, rebaseLimits, toFormLimits } from "./edits";

const before = { east: { cpu: "4", memory: "8Gi" }, west: { cpu: "2" } };

it("tells what differs, in order", () => {
  expect(limitChanges(before, { east: { cpu: "5", pods: 3, memory: "8Gi" } })).toEqual([
    { cluster: "east", resource: "cpu", before: "4", after: "5" },
    { cluster: "east", resource: "pods", before: undefined, after: "3" },
    { cluster: "west", resource: "cpu", before: "2", after: undefined },
  ]);
});

it("keeps what was typed, and takes the rest as it is now", () => {
  const mine = [{ cluster: "east", amounts: [{ resource: "cpu", amount: "6" }, { resource: "memory", amount: "8Gi" }, { resource: "storage", amount: "1Gi" }] }, ...toFormLimits({ west: before.west })];
  const after = { east: { cpu: "5", memory: "9Gi", pods: "3" }, north: { cpu: "1" } };
  expect(rebaseLimits(before, mine, after)).toEqual([
    { cluster: "east", amounts: [{ resource: "cpu", amount: "6" }, { resource: "memory", amount: "9Gi" }, { resource: "storage", amount: "1Gi" }, { resource: "pods", amount: "3" }] },
    { cluster: "north", amounts: [{ resource: "cpu", amount: "1" }] },
  ]);
});

it("leaves out what either has taken out, but not what the other one has filled in", () => {
  const without = toFormLimits({ east: { memory: "8Gi" } });
  expect(rebaseLimits(before, without, before)).toEqual(without);
  expect(rebaseLimits(before, toFormLimits(before), { east: before.east })).toEqual(toFormLimits({ east: before.east }));
  const raised = toFormLimits({ ...before, west: { cpu: "3" } });
  expect(rebaseLimits(before, raised, { east: before.east })).toEqual(raised);
});

it("takes no limit away because its amount was emptied", () => {
  const entry = (...amounts: [string, string][]) => ({ cluster: "east", amounts: amounts.map(([resource, amount]) => ({ resource, amount })) });
  const emptied = (limits: ReturnType<typeof entry>) => limits.amounts.map((_, at) => isEmptied(before, limits, at));
  expect(emptied(entry(["cpu", ""], ["memory", "8Gi"]))).toEqual([true, false]);
  expect(emptied(entry(["cpu", "0"], ["pods", ""], ["", ""]))).toEqual([false, false, false]);
  expect(emptied(entry(["cpu", ""], ["cpu", "4"]))).toEqual([false, false]);
  expect(limitsTakenOut(before, [entry(["cpu", ""], ["memory", "8Gi"])])).toEqual([]);
});

it("tells which limits were taken out where their cluster stays", () => {
  expect(limitsTakenOut(before, toFormLimits({ east: { pods: "1" } }))).toEqual([{ cluster: "east", resource: "cpu" }, { cluster: "east", resource: "memory" }]);
  expect(limitsTakenOut(before, toFormLimits(before))).toEqual([]);
  expect(limitsTakenOut(before, toFormLimits({ north: { cpu: "1" } }))).toEqual([]);
});
