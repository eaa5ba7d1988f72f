import { expect, it } from "vitest";
import { HistoryState } from "./historystate";

it("keeps what an entry was like, over a reload, too", () => {
  const entries = new HistoryState();
  entries.set("a", "scroll", 7);
  entries.set("a", "rows", 500);
  entries.set("b", "scroll", 1);
  entries.delete("b");
  const again = new HistoryState(JSON.stringify(entries));
  expect([again.get("a", "scroll"), again.get("a", "rows"), again.get("b", "scroll"), again.get("a", "else")]).toEqual([7, 500, undefined, undefined]);
});

it("forgets those of long ago", () => {
  const entries = new HistoryState();
  entries.set("first", "scroll", 1);
  entries.set("second", "scroll", 2);
  entries.set("first", "scroll", 3);
  for (let n = 0; n < 99; n += 1) entries.set(`${n}`, "scroll", n);
  expect([entries.get("first", "scroll"), entries.get("second", "scroll"), entries.get("98", "scroll")]).toEqual([3, undefined, 98]);
});
