import { expect, it } from "vitest";
import { ApiError } from "./status";
import { ConflictError, type Stored, type WriteRequest, isEqual, remove, write } from "./write";

const object = (version: string, spec: object, uid = "u"): Stored => ({ metadata: { name: "shop", uid, resourceVersion: version }, spec });
const conflict = () => new ApiError({ kind: "Status", reason: "Conflict", message: "the object has been modified" }, 409);

const base = object("1", { access: ["a"], clusters: { east: { hard: { cpu: "1" } } } });
const out: WriteRequest = { method: "PATCH", path: "/shop", body: { metadata: { resourceVersion: "1" }, spec: { access: ["a", "b"] } }, base };

/** A server whose object moves on each time it is read: what is sent is kept, and taken if it names the newest version. */
function server(versions: Stored[]) {
  const sent: unknown[] = [];
  let newest = versions[0] ?? base;
  const ask = async (path: string, { method = "GET", body }: { method?: string; body?: unknown } = {}) => {
    if (method === "GET") return (newest = versions.shift() ?? newest);
    sent.push({ path, version: (body as { metadata: { resourceVersion: string } }).metadata.resourceVersion });
    if ((body as { metadata: { resourceVersion: string } }).metadata.resourceVersion !== newest.metadata.resourceVersion || versions.length > 0) throw conflict();
    return newest;
  };
  return { sent, ask: ask as never };
}

it("sends again what lost against a status, and against what it does not touch", async () => {
  const { sent, ask } = server([object("2", { access: ["a"], clusters: {} })]);
  await write(out, {}, ask);
  expect(sent).toEqual([{ path: "/shop", version: "1" }, { path: "/shop", version: "2" }]);
});

it("asks the same way by a dry run", async () => {
  const { sent, ask } = server([object("2", base.spec ?? {})]);
  await write(out, { isDry: true }, ask);
  expect(sent).toEqual([{ path: "/shop?dryRun=All", version: "1" }, { path: "/shop?dryRun=All", version: "2" }]);
});

it("hands over what somebody else has written of the same", async () => {
  const theirs = object("2", { access: ["c"] });
  const { sent, ask } = server([theirs]);
  const failure = await write(out, {}, ask).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(ConflictError);
  expect((failure as ConflictError).fresh).toBe(theirs);
  expect(sent.length).toBe(1);
});

it("gives up after some tries, and at once where another object stands there or nothing was read", async () => {
  const busy = server(["2", "3", "4", "5"].map((version) => object(version, base.spec ?? {})));
  await expect(write(out, {}, busy.ask)).rejects.toThrow("modified");
  expect(busy.sent.length).toBe(3);
  const other = server([object("2", base.spec ?? {}, "another")]);
  await expect(write(out, {}, other.ask)).rejects.toThrow("modified");
  expect(other.sent.length).toBe(1);
  const { base: _, ...made } = out;
  const unread = server([object("2", base.spec ?? {})]);
  await expect(write(made, {}, unread.ask)).rejects.toThrow("modified");
  expect(unread.sent.length).toBe(1);
});

it("deletes what was looked at, and no other of its name", async () => {
  const asked: unknown[] = [];
  const ask = async (...what: unknown[]) => asked.push(what);
  await remove("/shop", "u", ask as never);
  expect(asked).toEqual([["/shop", { method: "DELETE", body: { preconditions: { uid: "u" } } }]]);
});

it("compares what JSON holds", () => {
  expect(isEqual({ a: [1, { b: "2" }], c: null }, { c: null, a: [1, { b: "2" }] })).toBe(true);
  expect([isEqual({ a: 1 }, { b: 1 }), isEqual([1], { 0: 1 }), isEqual([1, 2], [2, 1]), isEqual(null, {}), isEqual(undefined, {})]).toEqual([false, false, false, false, false]);
});
