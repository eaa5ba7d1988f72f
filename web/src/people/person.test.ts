import { expect, it } from "vitest";
import { type Person, changesOf, isWhole, written } from "./person";

const person = (name: string, more: Partial<Person> = {}): Person => ({ kind: "User", name, namespace: "", cluster: "", role: "edit", member: false, ...more });

it("tells who is given a role, another one, or none any more", () => {
  const before = [person("ann"), person("bob"), person("cyd", { member: true })];
  const after = [person("ann"), person("bob", { role: "admin" }), person("dan", { kind: "Group" })];
  expect(changesOf(before, after)).toEqual([
    { is: "changed", who: "bob", role: "admin" }, { is: "given", who: "dan", role: "edit" }, { is: "taken", who: "cyd", role: "edit" },
  ]);
  expect(changesOf(before, before)).toEqual([]);
});

it("takes a user and a group of one name for two", () => {
  expect(changesOf([person("ops")], [person("ops", { kind: "Group" })]).map(({ is }) => is)).toEqual(["given", "taken"]);
});

it("writes of a service account where it is, and of others nothing more", () => {
  const robot = person("argocd", { kind: "ServiceAccount", namespace: "gitops", cluster: "east" });
  expect(written(robot, true)).toEqual({ kind: "ServiceAccount", name: "argocd", namespace: "gitops", cluster: "east", role: "edit" });
  expect(written(person("ann"), false)).toEqual({ kind: "User", name: "ann" });
  expect([isWhole(robot), isWhole({ ...robot, namespace: "" }), isWhole(person(""))]).toEqual([true, false, false]);
});
