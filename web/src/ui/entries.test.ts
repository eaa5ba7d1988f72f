import { expect, it } from "vitest";
import { Entries } from "./entries";

it("keeps what an entry was like, over a reload, too", () => {
  const entries = new Entries();
  entries.keep("a", "scroll", 7);
  entries.keep("a", "rows", 500);
  entries.keep("b", "scroll", 1);
  entries.forget("b");
  const again = new Entries(JSON.stringify(entries));
  expect([again.of("a", "scroll"), again.of("a", "rows"), again.of("b", "scroll"), again.of("a", "else")]).toEqual([7, 500, undefined, undefined]);
});

it("forgets those of long ago", () => {
  const entries = new Entries();
  entries.keep("first", "scroll", 1);
  entries.keep("second", "scroll", 2);
  entries.keep("first", "scroll", 3);
  for (let n = 0; n < 99; n += 1) entries.keep(`${n}`, "scroll", n);
  expect([entries.of("first", "scroll"), entries.of("second", "scroll"), entries.of("98", "scroll")]).toEqual([3, undefined, 98]);
});
