import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { ApiError } from "../api/status";
import en from "../i18n/en.json";
import { chooseLanguage } from "../i18n/messages";
import zh from "../i18n/zh.json";
import { Feed, type FeedState, type Resource } from "./feed";

class FakeSocket {
  static all: FakeSocket[] = [];
  onopen?: () => void;
  onmessage?: (event: { data: string }) => void;
  onclose?: () => void;
  constructor(readonly url: string) {
    FakeSocket.all.push(this);
  }
  close() {
    this.onclose?.();
  }
  says(type: string, name: string, revision: number) {
    this.onmessage?.({ data: JSON.stringify({ type, object: object(name, revision) }) });
  }
}

const object = (name: string, revision: number): Resource => ({ metadata: { name, uid: name, resourceVersion: `${revision}` } });

function story(pages: (() => unknown)[]) {
  const seen = { names: new Set<string>(), states: [] as FeedState[], asked: [] as string[] };
  const ask = async (path: string) => {
    seen.asked.push(path);
    const page = pages.shift();
    if (!page) throw new Error("nobody answers");
    return page();
  };
  const sink = {
    replace: (items: Resource[]) => (seen.names = new Set(items.map((item) => item.metadata.name))),
    put: (item: Resource) => seen.names.add(item.metadata.name),
    remove: (item: Resource) => seen.names.delete(item.metadata.name),
    state: (state: FeedState) => seen.states.push(state),
  };
  const feed = new Feed("/things", sink, (url) => new FakeSocket(url) as unknown as WebSocket, ask as never);
  feed.start();
  return { feed, seen };
}

const page = (revision: number, names: string[], next = "") => () => ({
  metadata: { resourceVersion: `${revision}`, continue: next }, items: names.map((name) => object(name, revision)),
});

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("localStorage", { setItem: () => {} });
  vi.spyOn(Math, "random").mockReturnValue(0.5);
  FakeSocket.all = [];
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

it("lists page after page and watches from there", async () => {
  const { seen } = story([page(7, ["a"], "more"), page(7, ["b"])]);
  await vi.advanceTimersByTimeAsync(0);
  expect(seen.asked).toEqual(["/things?limit=2000&pretty=0", "/things?limit=2000&pretty=0&continue=more"]);
  const [socket] = FakeSocket.all;
  expect(socket?.url).toContain("resourceVersion=7");
  socket?.onopen?.();
  socket?.says("ADDED", "c", 8);
  socket?.says("DELETED", "a", 9);
  expect([...seen.names]).toEqual(["b", "c"]);
  expect(seen.states).toEqual([{ at: "live" }]);
});

it("goes on where it was cut, and tells of it when it lasts", async () => {
  const { seen } = story([page(7, ["a"])]);
  await vi.advanceTimersByTimeAsync(0);
  FakeSocket.all[0]?.onopen?.();
  FakeSocket.all[0]?.says("MODIFIED", "a", 12);
  FakeSocket.all[0]?.close();
  await vi.advanceTimersByTimeAsync(250);
  expect(FakeSocket.all[1]?.url).toContain("resourceVersion=12");
  expect(seen.states.map((state) => state.at)).toEqual(["live"]);
  FakeSocket.all[1]?.close();
  expect(seen.states.map((state) => state.at)).toEqual(["live", "cut"]);
});

it("does not take what was never read for what was read and is old", async () => {
  const away = new ApiError({ kind: "Status", message: "no shard answers" }, 503);
  const fail = () => { throw away; };
  const { seen } = story([fail, fail, fail, page(7, ["a"])]);
  await vi.advanceTimersByTimeAsync(250 + 500);
  expect(seen.states).toMatchObject([{ at: "unread", why: "no shard answers" }, { at: "unread" }]);
  await vi.advanceTimersByTimeAsync(1000);
  expect([...seen.names]).toEqual(["a"]);
  FakeSocket.all[0]?.onopen?.();
  FakeSocket.all[0]?.close();
  await vi.advanceTimersByTimeAsync(250);
  FakeSocket.all[1]?.close();
  expect(seen.states.map((state) => state.at)).toEqual(["unread", "unread", "live", "cut"]);
});

it("comes back sooner or later than others that were cut with it", async () => {
  story([page(7, ["a"])]);
  await vi.advanceTimersByTimeAsync(0);
  FakeSocket.all[0]?.onopen?.();
  vi.mocked(Math.random).mockReturnValue(0);
  FakeSocket.all[0]?.close();
  await vi.advanceTimersByTimeAsync(124);
  expect(FakeSocket.all).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(FakeSocket.all).toHaveLength(2);
});

it("says since when nothing is known, however often it tries", async () => {
  const { seen } = story([page(7, ["a"])]);
  await vi.advanceTimersByTimeAsync(0);
  FakeSocket.all[0]?.onopen?.();
  const heard = Date.now();
  FakeSocket.all[0]?.close();
  for (const wait of [250, 500]) {
    await vi.advanceTimersByTimeAsync(wait);
    FakeSocket.all.at(-1)?.close();
  }
  const since = seen.states.flatMap((state) => (state.at === "cut" ? [state.since] : []));
  expect(since).toEqual([heard, heard]);
});

it("takes silence for a cut: the server says something once a minute", async () => {
  const { seen } = story([page(7, ["a"]), page(12, ["a"])]);
  await vi.advanceTimersByTimeAsync(0);
  FakeSocket.all[0]?.onopen?.();
  await vi.advanceTimersByTimeAsync(60_000);
  FakeSocket.all[0]?.says("BOOKMARK", "", 9);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(seen.states.map((state) => state.at)).toEqual(["live"]);
  await vi.advanceTimersByTimeAsync(31_000);
  expect(seen.states.map((state) => state.at)).toEqual(["live", "cut"]);
  expect(FakeSocket.all[1]?.url).toContain("resourceVersion=12");
  FakeSocket.all[1]?.onopen?.();
  expect(seen.states.map((state) => state.at)).toEqual(["live", "cut", "live"]);
});

it("reads anew when history is gone", async () => {
  const { seen } = story([page(7, ["a"]), page(20, ["z"])]);
  await vi.advanceTimersByTimeAsync(0);
  FakeSocket.all[0]?.says("ERROR", "", 0);
  await vi.advanceTimersByTimeAsync(250);
  expect([...seen.names]).toEqual(["z"]);
  expect(FakeSocket.all[1]?.url).toContain("resourceVersion=20");
});

it("says why in the language of whoever reads it then", async () => {
  const { seen } = story([page(7, ["a"])]);
  await vi.advanceTimersByTimeAsync(0);
  FakeSocket.all[0]?.close();
  await vi.advanceTimersByTimeAsync(250);
  FakeSocket.all[1]?.close();
  const [cut] = seen.states.flatMap((state) => (state.at === "cut" ? [state] : []));
  expect(cut?.why).toBe(en["cut.closed"]);
  chooseLanguage("zh");
  expect(cut?.why).toBe(zh["cut.closed"]);
  chooseLanguage("en");
});

it("goes on when it is known again who asks", async () => {
  const nobody = new ApiError({ kind: "Status", message: "Unauthorized" }, 401);
  const { seen } = story([() => { throw nobody; }, page(7, ["a"])]);
  await vi.advanceTimersByTimeAsync(250);
  expect([...seen.names]).toEqual(["a"]);
  expect(seen.states).toEqual([]);
});

it("takes a refusal for an answer until somebody asks again", async () => {
  const refusal = new ApiError({ kind: "Status", message: "no", reason: "Forbidden" }, 403);
  const { seen } = story([() => { throw refusal; }, page(7, ["a"])]);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(seen.states).toEqual([{ at: "refused", error: refusal, retry: expect.any(Function) }]);
  const [refused] = seen.states.splice(0);
  if (refused?.at === "refused") refused.retry();
  await vi.advanceTimersByTimeAsync(0);
  expect(seen.states).toEqual([{ at: "loading" }]);
  expect([...seen.names]).toEqual(["a"]);
  expect(FakeSocket.all[0]?.url).toContain("resourceVersion=7");
});

it("does nothing more once it is stopped", async () => {
  const { feed, seen } = story([page(7, ["a"])]);
  await vi.advanceTimersByTimeAsync(0);
  feed.stop();
  await vi.advanceTimersByTimeAsync(60_000);
  expect([FakeSocket.all.length, seen.asked.length]).toEqual([1, 1]);
});

it("lists anew after a long silence: what its user sees may have changed while the machine slept", async () => {
  const { seen } = story([page(7, ["a"]), page(20, ["b"])]);
  await vi.advanceTimersByTimeAsync(0);
  FakeSocket.all[0]?.onopen?.();
  vi.setSystemTime(Date.now() + 3_600_000);
  FakeSocket.all[0]?.close();
  await vi.advanceTimersByTimeAsync(250);
  expect([...seen.names]).toEqual(["b"]);
  expect(FakeSocket.all[1]?.url).toContain("resourceVersion=20");
});

it("lists anew when it is told to, and hears no more of what it did before", async () => {
  const { feed, seen } = story([page(7, ["a"]), page(8, ["a", "b"])]);
  await vi.advanceTimersByTimeAsync(0);
  FakeSocket.all[0]?.onopen?.();
  feed.relist();
  await vi.advanceTimersByTimeAsync(0);
  FakeSocket.all[0]?.says("DELETED", "b", 9);
  expect([...seen.names]).toEqual(["a", "b"]);
  FakeSocket.all[1]?.onopen?.();
  await vi.advanceTimersByTimeAsync(10_000);
  expect([FakeSocket.all.length, seen.asked.length, seen.states.map(({ at }) => at).join()]).toEqual([2, 2, "live,live"]);
});

it("takes the newer of two lists, whichever ends first", async () => {
  const ends: ((list: unknown) => void)[] = [];
  const slow = () => new Promise((resolve) => ends.push(resolve));
  const { feed, seen } = story([slow, slow]);
  feed.relist();
  ends[1]?.(page(9, ["new"])());
  await vi.advanceTimersByTimeAsync(0);
  ends[0]?.(page(8, ["old"])());
  await vi.advanceTimersByTimeAsync(0);
  expect([[...seen.names], FakeSocket.all.length]).toEqual([["new"], 1]);
});
