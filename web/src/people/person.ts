/** The people in access lists of our objects: pure functions. */

import type { Project } from "../api/types";

export const PERSON_KINDS = ["User", "Group", "ServiceAccount"] as const;
export type PersonKind = (typeof PERSON_KINDS)[number];

/** Ordered by their rights, the least first. */
export const ROLES = ["view", "edit", "admin"] as const;
export type Role = (typeof ROLES)[number];

export interface Person {
  kind: PersonKind;
  name: string;
  /** The namespace of a service account. */
  namespace: string;
  /** The member cluster of a service account; empty for the host cluster. */
  cluster: string;
  role: Role;
  /** Whether `spec.members` names him: a user whose credential carries the tenant. */
  member: boolean;
}

export interface PeopleChange {
  is: "given" | "changed" | "taken";
  who: string;
  role: Role;
}

export function nameOf({ kind, name, namespace, cluster }: Person): string {
  return kind === "ServiceAccount" ? `${namespace}:${name}${cluster && ` (${cluster})`}` : name;
}

export function isComplete({ kind, name, namespace }: Person): boolean {
  return name !== "" && (kind !== "ServiceAccount" || namespace !== "");
}

export const user = (name: string, role: Role, member = false): Person => ({ kind: "User", name, namespace: "", cluster: "", role, member });

/** The people that a project names itself. */
export function peopleOf({ spec }: Project): Person[] {
  const { access = [], members = [] } = spec ?? {};
  return [
    ...access.map(({ kind, name, namespace = "", cluster = "", role }) => ({ kind, name, namespace, cluster, role, member: false })),
    ...members.map((name) => user(name, "edit", true)),
  ];
}

export interface AccessGrant {
  /** The project that grants it. */
  from: string;
  kind: PersonKind;
  name: string;
  role: Role;
}

/** Who has a role in a project, from the project itself and its ancestors, as far as the user may see them. */
export function accessTo(name: string, all: ReadonlyMap<string, Project>): AccessGrant[] {
  const line: Project[] = [];
  for (let at = all.get(name); at && !line.includes(at); at = all.get(at.spec?.parentProjectName ?? "")) line.push(at);
  return line.flatMap((project) => peopleOf(project).map((one) => ({ from: project.metadata.name, kind: one.kind, name: nameOf(one), role: one.role })));
}

const keyOf = ({ kind, name, namespace, cluster, member }: Person) => JSON.stringify([kind, name, namespace, cluster, member]);

/** Trims names that were typed. Entries that exist with white space stay as they are. */
export function trimmed(typed: readonly Person[], before: readonly Person[]): Person[] {
  const known = new Set(before.map(keyOf));
  return typed.map((one) => (known.has(keyOf(one)) ? one : { ...one, name: one.name.trim(), namespace: one.namespace.trim(), cluster: one.cluster.trim() }));
}

/** The differences between two lists. */
export function changesOf(before: readonly Person[], after: readonly Person[]): PeopleChange[] {
  const had = new Map(before.map((one) => [keyOf(one), one]));
  const has = new Set(after.map(keyOf));
  const more = after.flatMap((one): PeopleChange[] => {
    const old = had.get(keyOf(one));
    if (old?.role === one.role) return [];
    return [{ is: old ? "changed" : "given", who: nameOf(one), role: one.role }];
  });
  const less = before.filter((one) => !has.has(keyOf(one))).map((one): PeopleChange => ({ is: "taken", who: nameOf(one), role: one.role }));
  return [...more, ...less];
}

/** The entry for the API. */
export function toApi({ kind, name, namespace, cluster, role }: Person, hasRole: boolean): object {
  return { kind, name, ...(kind === "ServiceAccount" && { namespace, ...(cluster && { cluster }) }), ...(hasRole && { role }) };
}

/** Three-way merge: keeps the changes of the user, and takes everybody else from `after`. */
export function rebasePeople(before: readonly Person[], mine: readonly Person[], after: readonly Person[]): Person[] {
  const byKey = (all: readonly Person[]) => new Map(all.map((one) => [keyOf(one), one]));
  const [old, now, named] = [byKey(before), byKey(after), byKey(mine)];
  const kept = mine.flatMap((one) => {
    const key = keyOf(one);
    if (old.get(key)?.role !== one.role) return [one];
    const fresh = now.get(key);
    return fresh ? [fresh] : [];
  });
  return [...kept, ...after.filter((one) => !old.has(keyOf(one)) && !named.has(keyOf(one)))];
}
