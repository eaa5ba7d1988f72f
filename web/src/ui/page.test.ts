import { expect, it } from "vitest";
import { PageLoadError, lazyPage } from "./page";

it("says of a page that could not be loaded how it is asked for again, and asks anew", async () => {
  let asked = 0;
  const there = () => "there";
  const shown = lazyPage(async () => {
    asked += 1;
    if (asked < 3) throw new TypeError("nothing answers");
    return there;
  });
  const why: unknown = await shown.preload().catch((error: unknown) => error);
  expect(why).toBeInstanceOf(PageLoadError);
  await expect((why as PageLoadError).retry()).rejects.toThrow("nothing answers");
  expect(await shown.preload()).toEqual({ default: there });
  expect(asked).toBe(3);
});
