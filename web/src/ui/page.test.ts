import { createRoot } from "solid-js";
import { expect, it } from "vitest";
import { NotLoaded, page } from "./page";

it("asks anew for a page that could not be loaded, also by pointing at it", async () => {
  let asked = 0;
  const shown = page(async () => {
    asked += 1;
    if (asked < 3) throw new TypeError("nothing answers");
    return () => "there";
  }) as ReturnType<typeof page> & { preload: () => void };
  const pointed = async () => {
    shown.preload();
    await new Promise((resolve) => setTimeout(resolve));
  };
  for (const times of [1, 2, 3, 3]) {
    await pointed();
    expect(asked).toBe(times);
  }
  expect(createRoot(() => shown({}))).toBeDefined();
});

it("says of what failed how it is asked for again", async () => {
  const error = new NotLoaded(() => Promise.resolve("there"), "gone");
  expect(await error.again()).toBe("there");
});
