import { expect, it } from "vitest";
import type { Project } from "../api/types";
import { type Person, accessTo, changesOf, isComplete, rebasePeople, toApi, trimmed, user } from "./person";

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
  expect(toApi(robot, true)).toEqual({ kind: "ServiceAccount", name: "argocd", namespace: "gitops", cluster: "east", role: "edit" });
  expect(toApi(person("ann"), false)).toEqual({ kind: "User", name: "ann" });
  expect([isComplete(robot), isComplete({ ...robot, namespace: "" }), isComplete(person(""))]).toEqual([true, false, false]);
});

it("tells who has a role in a project, and which project gives it", () => {
  const project = (name: string, parent: string, spec: object) =>
    [name, { metadata: { name }, spec: { ...(parent && { parentProjectName: parent }), ...spec } } as unknown as Project] as const;
  const all = new Map([
    project("shop", "", { access: [{ kind: "Group", name: "developers", role: "view" }] }),
    project("web", "shop", { access: [{ kind: "ServiceAccount", namespace: "ci", name: "deployer", cluster: "east", role: "edit" }], members: ["bob"] }),
    project("round", "round", { members: ["eve"] }),
  ]);
  expect(accessTo("web", all).map(({ from, name, role }) => `${from}: ${name} ${role}`)).toEqual(
    ["web: ci:deployer (east) edit", "web: bob edit", "shop: developers view"]);
  expect(accessTo("round", all)).toHaveLength(1);
  expect(accessTo("unseen", all)).toEqual([]);
});

it("keeps what was changed, and takes everybody else as he is now", () => {
  const before = [person("ann"), person("bob"), person("cyd"), person("dan")];
  const mine = [person("ann", { role: "admin" }), person("bob"), person("dan"), person("new")];
  const after = [person("ann"), person("bob", { role: "view" }), person("cyd"), person("eve"), person("new", { role: "admin" })];
  expect(rebasePeople(before, mine, after)).toEqual([person("ann", { role: "admin" }), person("bob", { role: "view" }), person("new"), person("eve")]);
});

it("takes the white space around a name that is typed for none of it, and leaves who is there with it", () => {
  const odd = user(" carol ", "view");
  expect(trimmed([odd, user(" dave ", "edit"), user("Dave of Acme", "view")], [odd])).toEqual([odd, user("dave", "edit"), user("Dave of Acme", "view")]);
  const account: Person = { kind: "ServiceAccount", name: "argocd\t", namespace: " gitops", cluster: " ", role: "view", member: false };
  expect(trimmed([account], [])).toEqual([{ ...account, name: "argocd", namespace: "gitops", cluster: "" }]);
  expect(trimmed([user(" ", "view")], []).every(isComplete)).toBe(false);
});
