import { createRoot } from "solid-js";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { closeAll, subscribe } from "./store";

let asked: number;
let code: number;

beforeEach(() => {
  vi.useFakeTimers();
  [asked, code] = [0, 200];
  vi.stubGlobal("WebSocket", class {
    onopen?: () => void;
    constructor() {
      queueMicrotask(() => this.onopen?.());
    }
    close() {}
  });
  vi.stubGlobal("fetch", async () => {
    asked += 1;
    const body = code === 200 ? { metadata: { resourceVersion: "7" }, items: [] } : { kind: "Status", code, message: "no" };
    return new Response(JSON.stringify(body), { status: code });
  });
});
afterEach(() => {
  closeAll();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** A page that follows a collection, and how it is left. */
async function comes() {
  const page = createRoot((leave) => ({ collection: subscribe("/things"), leave }));
  await vi.advanceTimersByTimeAsync(0);
  return page;
}

it("is shared by those who look, and by who comes back soon", async () => {
  const [first, second] = [await comes(), await comes()];
  expect(second.collection).toBe(first.collection);
  first.leave();
  second.leave();
  await vi.advanceTimersByTimeAsync(29_000);
  expect((await comes()).collection).toBe(first.collection);
  expect(asked).toBe(1);
});

it("is asked for anew by who comes after a refusal", async () => {
  code = 403;
  const refused = await comes();
  expect(refused.collection.state().at).toBe("refused");
  code = 200;
  const page = await comes();
  expect(page.collection.state().at).toBe("live");
  expect(refused.collection.state().at).toBe("refused");
  refused.leave();
  await vi.advanceTimersByTimeAsync(31_000);
  expect((await comes()).collection).toBe(page.collection);
  expect(asked).toBe(2);
});
