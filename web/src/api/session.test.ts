import { afterEach, beforeEach, expect, it, vi } from "vitest";

const HOUR = 3_600_000;
const START = Date.parse("2026-01-01T00:00:00Z");

/** The server: what it knows of this browser, and what it was asked. */
let token: number;
let ends: number;
/** How long what it gives lasts. */
let lives: number;
/** So far is the browser's clock ahead of the server's. */
let ahead: number;
let giver: "gives" | "refuses" | "is away" | "says no" | "has no provider";
let username: string;
let groups: string[];
let asked: string[];
let channels: FakeChannel[];

class FakeChannel {
  onmessage?: (event: { data: string }) => void;
  readonly told: string[] = [];
  constructor() {
    channels.push(this);
  }
  postMessage(data: string) {
    this.told.push(data);
  }
}

const iso = (when: number) => new Date(when).toISOString();
const json = (code: number, body: object) => new Response(JSON.stringify(body), { status: code });
const session = () => json(200, { username, groups, issuer: "local", expires: iso(token), ends: iso(ends) });
const status = (code: number) => json(code, { kind: "Status", code, message: `no: ${code}` });

async function server(path: string): Promise<Response> {
  asked.push(path.slice(path.lastIndexOf("/") + 1));
  if (giver === "is away") throw new TypeError("Failed to fetch");
  if (giver === "says no") return status(403);
  if (path === "/console/logout") return json(200, { location: "/console/" });
  const now = Date.now() - ahead;
  if (now >= ends) return status(401);
  if (path === "/console/refresh") {
    if (giver === "refuses") return status(401);
    if (giver === "has no provider") return status(503);
    token = Math.min(now + lives, ends);
    return session();
  }
  if (now >= token) return status(401);
  if (path.startsWith("/apis/things")) return json(200, { metadata: { resourceVersion: "1" }, items: [] });
  return path === "/console/session" ? session() : json(200, {});
}

async function fresh() {
  vi.resetModules();
  return { ...(await import("./session")), ...(await import("./client")) };
}

beforeEach(() => {
  vi.useFakeTimers({ now: START });
  [token, ends, lives, ahead] = [START + 300_000, START + 12 * HOUR, 300_000, 0];
  [giver, username, groups, asked, channels] = ["gives", "alice", [], [], []];
  vi.stubGlobal("BroadcastChannel", FakeChannel);
  vi.stubGlobal("navigator", { locks: { request: (_: string, work: () => unknown) => work() } });
  vi.stubGlobal("fetch", server);
  vi.stubGlobal("location", { assign: vi.fn() });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("exchanges a token that has ended: only a refresh that is refused means nobody", async () => {
  const { checkSession, sessionState } = await fresh();
  vi.setSystemTime(START + HOUR);
  await checkSession();
  expect(sessionState()).toMatchObject({ is: "loggedIn", session: { expires: iso(START + HOUR + 300_000) } });
  expect(asked).toEqual(["session", "session", "refresh"]);
  giver = "refuses";
  vi.setSystemTime(START + 2 * HOUR);
  await checkSession();
  expect(sessionState()).toEqual({ is: "loggedOut" });
});

it("refreshes a minute before the token's end, again and again, to the session's end and not beyond", async () => {
  const { checkSession, sessionEndsSoon, sessionState } = await fresh();
  ends = START + 1_000_000;
  await checkSession();
  await vi.advanceTimersByTimeAsync(239_000);
  expect(asked).toEqual(["session"]);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(asked).toEqual(["session", "session", "session", "refresh"]);
  await vi.advanceTimersByTimeAsync(158_000);
  expect(sessionEndsSoon()).toBe(false);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(sessionEndsSoon()).toBe(true);
  await vi.advanceTimersByTimeAsync(598_000);
  expect(sessionState().is).toBe("loggedIn");
  const before = asked.length;
  await vi.advanceTimersByTimeAsync(2_000);
  expect(sessionState()).toEqual({ is: "loggedOut" });
  expect(sessionEndsSoon()).toBe(false);
  await vi.advanceTimersByTimeAsync(HOUR);
  expect(asked.slice(before)).toEqual(["session", "session", "refresh"]);
});

it("keeps a token to its end when no other is given, and warns", async () => {
  const { checkSession, sessionEndsSoon, sessionState } = await fresh();
  giver = "refuses";
  await checkSession();
  await vi.advanceTimersByTimeAsync(241_000);
  expect(sessionState()).toMatchObject({ is: "loggedIn", session: { ends: iso(token) } });
  expect(sessionEndsSoon()).toBe(true);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(sessionState()).toEqual({ is: "loggedOut" });
  expect(asked.filter((what) => what === "refresh")).toHaveLength(2);
});

it("refreshes a token that lives shorter than a minute once in half of its life", async () => {
  const { checkSession, sessionState } = await fresh();
  [token, lives] = [START + 40_000, 40_000];
  await checkSession();
  await vi.advanceTimersByTimeAsync(199_000);
  expect(asked.filter((what) => what === "refresh")).toHaveLength(9);
  expect(sessionState().is).toBe("loggedIn");
});

it("refreshes once a minute where this clock is ahead by more than a token's life", async () => {
  const { checkSession, sessionState } = await fresh();
  ahead = 600_000;
  [token, ends] = [token - ahead, ends - ahead];
  await checkSession();
  await vi.advanceTimersByTimeAsync(599_000);
  expect(asked.filter((what) => what === "refresh")).toHaveLength(9);
  expect(sessionState().is).toBe("loggedIn");
});

it("is not told to be away as long as the token is good, when the provider is", async () => {
  const { checkSession, sessionState } = await fresh();
  giver = "has no provider";
  await checkSession();
  await vi.advanceTimersByTimeAsync(241_000);
  expect(asked).toContain("refresh");
  for (let seconds = 0; seconds < 58; seconds += 1) {
    expect(sessionState().is).toBe("loggedIn");
    await vi.advanceTimersByTimeAsync(1_000);
  }
  await vi.advanceTimersByTimeAsync(10_000);
  expect(sessionState()).toEqual({ is: "offline", why: "no: 503" });
  giver = "gives";
  await vi.advanceTimersByTimeAsync(10_000);
  expect(sessionState().is).toBe("loggedIn");
});

it("says that the server is away, and goes on when it is back", async () => {
  const { checkSession, sessionState } = await fresh();
  await checkSession();
  giver = "is away";
  await vi.advanceTimersByTimeAsync(400_000);
  expect(sessionState()).toEqual({ is: "offline", why: "" });
  giver = "gives";
  await vi.advanceTimersByTimeAsync(5_000);
  expect(sessionState().is).toBe("loggedIn");
});

it("asks the API once more with a new token, and once only", async () => {
  const { checkSession, request, sessionState } = await fresh();
  await checkSession();
  vi.setSystemTime(START + HOUR);
  asked = [];
  await Promise.all([request("/apis/a"), request("/apis/b")]);
  expect(asked).toEqual(["a", "b", "session", "session", "refresh", "a", "b"]);
  giver = "refuses";
  vi.setSystemTime(START + 2 * HOUR);
  asked = [];
  await expect(request("/apis/a")).rejects.toMatchObject({ code: 401 });
  expect(asked).toEqual(["a", "session", "session", "refresh"]);
  expect(sessionState()).toEqual({ is: "loggedOut" });
});

it("does not go on asking when the API knows nobody though there is a session", async () => {
  const { checkSession, request, sessionState } = await fresh();
  await checkSession();
  vi.stubGlobal("fetch", async (path: string) => (path.startsWith("/apis/") ? (asked.push("api"), status(401)) : server(path)));
  asked = [];
  await expect(request("/apis/a")).rejects.toMatchObject({ code: 401 });
  expect(asked).toEqual(["api", "session", "api"]);
  expect(sessionState().is).toBe("loggedIn");
});

it("tells the other tabs who came and who went, and hears it of them", async () => {
  const { checkSession, logout, sessionState } = await fresh();
  await checkSession();
  expect(channels[0]?.told).toEqual(["came"]);
  channels[0]?.onmessage?.({ data: "went" });
  expect(sessionState()).toEqual({ is: "loggedOut" });
  channels[0]?.onmessage?.({ data: "came" });
  await vi.advanceTimersByTimeAsync(0);
  expect(sessionState().is).toBe("loggedIn");
  await logout();
  expect(channels[0]?.told).toEqual(["came", "came", "went"]);
  expect(sessionState()).toEqual({ is: "unknown" });
  expect(location.assign).toHaveBeenCalledWith("/console/");
});

it("looks who came, whoever was there", async () => {
  const { checkSession, sessionState } = await fresh();
  await checkSession();
  username = "bob";
  channels[0]?.onmessage?.({ data: "came" });
  await vi.advanceTimersByTimeAsync(0);
  expect(sessionState()).toMatchObject({ is: "loggedIn", session: { username: "bob" } });
});

it("believes no answer from before somebody went", async () => {
  const { checkSession, sessionState } = await fresh();
  const looks = checkSession();
  ends = START;
  channels[0]?.onmessage?.({ data: "went" });
  await looks;
  await vi.advanceTimersByTimeAsync(0);
  expect(sessionState()).toEqual({ is: "loggedOut" });
});

it("asks nothing once more for somebody else", async () => {
  const { checkSession, request, sessionState } = await fresh();
  await checkSession();
  [token, username] = [START, "bob"];
  asked = [];
  await expect(request("/apis/a", { method: "POST" })).rejects.toMatchObject({ code: 401 });
  expect(asked).toEqual(["a", "session", "session", "refresh"]);
  expect(sessionState()).toMatchObject({ is: "loggedIn", session: { username: "bob" } });
});

it("logs out after a refresh that is under way", async () => {
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = (_: string, work: () => Promise<unknown>) => (last = last.then(work, work));
  vi.stubGlobal("navigator", { locks: { request: inTurn } });
  const { checkSession, logout, sessionState } = await fresh();
  await checkSession();
  await vi.advanceTimersByTimeAsync(238_000);
  let give = (): void => undefined;
  const waits = new Promise<void>((resolve) => (give = resolve));
  vi.stubGlobal("fetch", async (path: string) => {
    if (path === "/console/refresh") await waits;
    return server(path);
  });
  await vi.advanceTimersByTimeAsync(3_000);
  asked = [];
  const leaves = logout();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(asked).toEqual([]);
  give();
  await leaves;
  expect(asked).toEqual(["refresh", "logout"]);
  expect(sessionState()).toEqual({ is: "unknown" });
});

it("stays logged in when a logout is not heard", async () => {
  const { checkSession, logout, sessionState } = await fresh();
  await checkSession();
  giver = "is away";
  await expect(logout()).rejects.toThrow("does not answer");
  expect(sessionState().is).toBe("loggedIn");
  expect(channels[0]?.told).toEqual(["came"]);
});

it("tells a server that says no from one that is away", async () => {
  const { checkSession, sessionState } = await fresh();
  giver = "says no";
  await checkSession();
  expect(sessionState()).toEqual({ is: "offline", why: "no: 403", refused: true });
  giver = "gives";
  await vi.advanceTimersByTimeAsync(5_000);
  expect(sessionState().is).toBe("loggedIn");
});

it("reads everything anew when a new token says that the user is in other groups", async () => {
  vi.stubGlobal("WebSocket", class { close() {} });
  const { checkSession } = await fresh();
  const { createRoot } = await import("solid-js");
  const { closeAll, subscribe } = await import("../live/store");
  groups = ["a", "b"];
  await checkSession();
  createRoot(() => subscribe("/apis/things"));
  const lists = () => asked.filter((what) => what.startsWith("things")).length;
  groups = ["b", "a"];
  await checkSession();
  await vi.advanceTimersByTimeAsync(0);
  expect(lists()).toBe(1);
  groups = ["b", "c"];
  await checkSession();
  await vi.advanceTimersByTimeAsync(0);
  expect(lists()).toBe(2);
  closeAll();
});

it("says that something in front of it answers, and goes on when that is over", async () => {
  const { checkSession, sessionState } = await fresh();
  vi.stubGlobal("fetch", async () => new Response("<html>Log in to the gateway</html>"));
  await checkSession();
  expect(sessionState()).toEqual({ is: "offline", why: expect.stringContaining("in front of the console") });
  vi.stubGlobal("fetch", server);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(sessionState().is).toBe("loggedIn");
});
