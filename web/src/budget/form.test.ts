import { expect, it } from "vitest";
import { assignClusters, freeClusters, isDuplicate, namespaceName, offeredRows } from "./form";

const rows = (...names: string[]) => names.map((name) => ({ resource: name.replace("=", ""), amount: name.endsWith("=") ? "1" : "" }));
const offers = (...names: string[]) => names.map((resource) => ({ resource, amount: "", isOffered: true }));

it("offers what is limited above while nothing is filled in, and moves no row that stays", () => {
  const before = offers("cpu", "memory");
  expect(offeredRows(before, ["cpu", "pods"], false)).toEqual(offers("cpu", "pods"));
  expect(offeredRows(before, ["configmaps", "cpu", "limits", "memory"], false)).toEqual(offers("cpu", "memory", "configmaps", "limits"));
  expect(offeredRows([...before, ...rows("gpu")], ["cpu"], false)).toEqual([...offers("cpu"), ...rows("gpu")]);
  expect(offeredRows(before, ["cpu", "memory"], false)).toBe(before);
  expect(offeredRows(before, [], false)).toBe(before);
});

it("keeps what is filled in, and appends what is missing once", () => {
  const begun = rows("cpu=", "memory");
  const complete = [...begun, ...offers("pods")];
  expect(offeredRows(begun, ["cpu", "memory", "pods"], false)).toEqual(complete);
  expect(offeredRows(begun, ["cpu", "memory", "pods"], true)).toBe(begun);
  expect(offeredRows(complete, ["cpu", "memory", "pods"], false)).toBe(complete);
});

it("leaves rows alone that were offered before, whatever somebody has added or taken out", () => {
  for (const touched of [rows("cpu", "memory", ""), rows("memory")]) expect(offeredRows(touched, ["cpu", "memory"], true)).toBe(touched);
});

it("places each entry at a cluster of its own", () => {
  expect(assignClusters([""], ["east", "west"])).toEqual(["east"]);
  expect(assignClusters(["west", "north"], ["east", "west"])).toEqual(["west", "east"]);
  expect(assignClusters(["north", "east"], ["east", "west"])).toEqual(["west", "east"]);
  expect(assignClusters(["north", "east"], ["east"])).toEqual([undefined, "east"]);
  expect(assignClusters(["north", "south", "east"], ["east", "west"])).toEqual(["west", undefined, "east"]);
  expect(assignClusters(["north"], [])).toEqual(["north"]);
});

it("finds the later one of two rows of one resource", () => {
  const all = rows("cpu=", "memory", "cpu", "", "");
  expect(all.map((_, at) => isDuplicate(all, at))).toEqual([false, false, true, false, false]);
});

it("names a namespace after its cluster, or lets the server complete its name where that would be none", () => {
  expect(namespaceName("east", "web")).toEqual({ name: "east-web" });
  expect(namespaceName("prod.eu-1", "web")).toEqual({ generateName: "web-" });
  expect(namespaceName("East", "web")).toEqual({ generateName: "web-" });
  expect(namespaceName("c".repeat(253), "web")).toEqual({ generateName: "web-" });
  expect(namespaceName("c".repeat(59), "web")).toEqual({ name: `${"c".repeat(59)}-web` });
  expect(namespaceName("c".repeat(60), "web")).toEqual({ generateName: "web-" });
  expect(namespaceName("east", "n".repeat(63))).toEqual({ generateName: `${"n".repeat(57)}-` });
});

it("finds the clusters that are free in one look at each entry", () => {
  let looks = 0;
  const entry = (cluster: string) => ({ get cluster() { looks += 1; return cluster; }, amounts: [] });
  const clusters = Array.from({ length: 100 }, (_, number) => `c${number}`);
  expect(freeClusters(clusters, clusters.slice(1).map(entry))).toEqual(["c0"]);
  expect(looks).toBe(99);
});
