import { expect, it } from "vitest";
import { offering } from "./offering";

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
