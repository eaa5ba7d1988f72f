import { type Accessor, Suspense, createMemo, createRoot, createSignal } from "solid-js";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { createLatest, createNames } from "./lookup";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const list = (...names: string[]) => ({ items: names.map((name) => ({ metadata: { name } })) });

/** What a page shows that reads a value. */
function shown(read: Accessor<string | undefined>): () => unknown {
  const page = Suspense({
    fallback: "suspended",
    get children() {
      return createMemo(() => read() ?? "nothing yet") as unknown as string;
    },
  });
  return () => {
    let value: unknown = page;
    while (typeof value === "function") value = (value as () => unknown)();
    return value;
  };
}

it("keeps the page while something is loaded, and takes no answer that is late", async () => {
  const loads = new Map<string, (text: string) => void>();
  const [input, setInput] = createSignal("a");
  const page = createRoot(() => shown(createLatest(input, (of) => new Promise<string>((resolve) => loads.set(of, resolve)))));
  expect(page()).toBe("nothing yet");
  setInput("b");
  loads.get("b")?.("of b");
  await vi.advanceTimersByTimeAsync(0);
  loads.get("a")?.("of a");
  await vi.advanceTimersByTimeAsync(0);
  expect(page()).toBe("of b");
});

it("says why no names are offered, and asks until there is an answer", async () => {
  const answers = [new Response(JSON.stringify({ kind: "Status", message: "not synced" }), { status: 503 }), new Response(JSON.stringify(list("east", "west")))];
  vi.stubGlobal("fetch", async () => answers.shift());
  const { names, why } = createRoot(() => createNames("/apis/things"));
  expect(why()).toBe("Loading …");
  await vi.advanceTimersByTimeAsync(0);
  expect([names(), why()]).toEqual([[], expect.stringContaining("not synced")]);
  await vi.advanceTimersByTimeAsync(5_000);
  expect([names(), why()]).toEqual([["east", "west"], ""]);
});

it("takes a refusal of names for an answer", async () => {
  const fetch = vi.fn(async () => new Response(JSON.stringify({ kind: "Status", message: "no" }), { status: 403 }));
  vi.stubGlobal("fetch", fetch);
  const { why } = createRoot(() => createNames("/apis/things"));
  await vi.advanceTimersByTimeAsync(60_000);
  expect([why(), fetch.mock.calls.length]).toEqual(["no", 1]);
});
