/** People as lists of ours name them: pure functions. */

import type { Project } from "../api/types";

export const PERSON_KINDS = ["User", "Group", "ServiceAccount"] as const;
export type PersonKind = (typeof PERSON_KINDS)[number];

/** From the least to the most. */
export const ROLES = ["view", "edit", "admin"] as const;
export type Role = (typeof ROLES)[number];

export interface Person {
  kind: PersonKind;
  name: string;
  /** Of a service account. */
  namespace: string;
  /** The member cluster of a service account; empty for the host cluster. */
  cluster: string;
  role: Role;
  /** By `spec.members`: a user whose credential names the tenant. */
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

export function isWhole({ kind, name, namespace }: Person): boolean {
  return name !== "" && (kind !== "ServiceAccount" || namespace !== "");
}

export const user = (name: string, role: Role, member = false): Person => ({ kind: "User", name, namespace: "", cluster: "", role, member });

/** Whom a project names itself. */
export function namedBy({ spec }: Project): Person[] {
  const { access = [], members = [] } = spec ?? {};
  return [
    ...access.map(({ kind, name, namespace = "", cluster = "", role }) => ({ kind, name, namespace, cluster, role, member: false })),
    ...members.map((name) => user(name, "edit", true)),
  ];
}

export interface Right {
  /** The project that gives it. */
  from: string;
  kind: PersonKind;
  name: string;
  role: Role;
}

/** Who has a role in a project: by itself and by those above it, as far as one sees them. */
export function accessTo(name: string, all: ReadonlyMap<string, Project>): Right[] {
  const line: Project[] = [];
  for (let at = all.get(name); at && !line.includes(at); at = all.get(at.spec?.parentProjectName ?? "")) line.push(at);
  return line.flatMap((project) => namedBy(project).map((one) => ({ from: project.metadata.name, kind: one.kind, name: nameOf(one), role: one.role })));
}

const keyOf = ({ kind, name, namespace, cluster, member }: Person) => JSON.stringify([kind, name, namespace, cluster, member]);

/** As they are meant: no name has white space around it, but whoever is there with it is not made another one. */
export function meant(typed: readonly Person[], before: readonly Person[]): Person[] {
  const known = new Set(before.map(keyOf));
  return typed.map((one) => (known.has(keyOf(one)) ? one : { ...one, name: one.name.trim(), namespace: one.namespace.trim(), cluster: one.cluster.trim() }));
}

/** What becomes of whom. */
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

/** As the API has it. */
export function written({ kind, name, namespace, cluster, role }: Person, hasRole: boolean): object {
  return { kind, name, ...(kind === "ServiceAccount" && { namespace, ...(cluster && { cluster }) }), ...(hasRole && { role }) };
}

/** Who has changed people keeps that; whom he has not touched is as he is now. */
export function rebased(before: readonly Person[], mine: readonly Person[], after: readonly Person[]): Person[] {
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
