import { expect, it } from "vitest";
import { stableRows } from "./rows";

const row = (name: string, amount = 1n) => ({ name, amount, tags: [name] });

it("keeps the object of a row whose content is the same", () => {
  const first = stableRows([row("a"), row("b")], new Map());
  const second = stableRows([row("b"), row("a", 2n), row("c")], first);
  const [a, b] = [...first.values()];
  expect([...second.values()]).toEqual([row("b"), row("a", 2n), row("c")]);
  expect([...second.values()][0]).toBe(b);
  expect([...second.values()][1]).not.toBe(a);
});

it("tells rows apart that say the same, and amounts of any size", () => {
  const same = stableRows([row("a"), row("a")], new Map());
  const [first, second] = [...same.values()];
  expect(first).not.toBe(second);
  const again = [...stableRows([row("a"), row("a"), row("a")], same).values()];
  expect(again).toHaveLength(3);
  expect(again[0]).toBe(first);
  expect(again[1]).toBe(second);
  const [huge] = [...stableRows([row("a", 2n ** 63n)], stableRows([row("a", 2n ** 63n + 1n)], new Map())).values()];
  expect(huge?.amount).toBe(2n ** 63n);
});
