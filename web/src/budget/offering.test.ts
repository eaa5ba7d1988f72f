import { expect, it } from "vitest";
import { isNamedBefore, offering, placed } from "./offering";

const rows = (...names: string[]) => names.map((name) => ({ resource: name.replace("=", ""), amount: name.endsWith("=") ? "1" : "" }));

it("offers what is limited above in its order while nothing is filled in", () => {
  const before = rows("cpu", "memory");
  expect(offering(before, ["cpu", "pods"], false)).toEqual(rows("cpu", "pods"));
  expect(offering(before, ["cpu", "memory"], false)).toBe(before);
  expect(offering(before, [], false)).toBe(before);
});

it("keeps what is filled in, and appends what is missing once", () => {
  const begun = rows("cpu=", "memory");
  const complete = rows("cpu=", "memory", "pods");
  expect(offering(begun, ["cpu", "memory", "pods"], false)).toEqual(complete);
  expect(offering(begun, ["cpu", "memory", "pods"], true)).toBe(begun);
  expect(offering(complete, ["cpu", "memory", "pods"], false)).toBe(complete);
});

it("leaves rows alone that were offered before, whatever somebody has added or taken out", () => {
  for (const touched of [rows("cpu", "memory", ""), rows("memory")]) expect(offering(touched, ["cpu", "memory"], true)).toBe(touched);
});

it("places each entry at a cluster of its own", () => {
  expect(placed([""], ["east", "west"])).toEqual(["east"]);
  expect(placed(["west", "north"], ["east", "west"])).toEqual(["west", "east"]);
  expect(placed(["north", "east"], ["east", "west"])).toEqual(["west", "east"]);
  expect(placed(["north", "east"], ["east"])).toEqual([undefined, "east"]);
  expect(placed(["north", "south", "east"], ["east", "west"])).toEqual(["west", undefined, "east"]);
  expect(placed(["north"], [])).toEqual(["north"]);
});

it("finds the later one of two rows of one resource", () => {
  const all = rows("cpu=", "memory", "cpu", "", "");
  expect(all.map((_, at) => isNamedBefore(all, at))).toEqual([false, false, true, false, false]);
});
