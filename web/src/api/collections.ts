/** The collections that the pages follow. */

import { createResource, createRoot } from "solid-js";
import { GROUP, request } from "./client";
import { sessionState } from "./session";
import type { MemberCluster, Namespace, Platform, Project, Tenant } from "./types";
import { type Collection, follow } from "../live/store";

export const projects = (): Collection<Project> => follow(`${GROUP}/projects`);
export const namespaces = (): Collection<Namespace> => follow(`${GROUP}/namespaces`);
export const namespacesOf = (project: string): Collection<Namespace> => follow(`${GROUP}/namespaces/${encodeURIComponent(project)}/namespaces`);
export const tenants = (): Collection<Tenant> => follow(`${GROUP}/tenants`);
export const platforms = (): Collection<Platform> => follow(`${GROUP}/platforms`);
export const clusters = (): Collection<MemberCluster> => follow(`${GROUP}/memberclusters`);

/** Where an object of ours is. */
export function pathOf(plural: string, name: string, namespace?: string): string {
  const place = namespace ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  return `${GROUP}${place}/${plural}/${encodeURIComponent(name)}`;
}

/** Whether somebody may look at what is the operators'. The server decides that of each act; here it keeps links away that lead nowhere. */
export const isOperator = createRoot(() => {
  const who = () => {
    const state = sessionState();
    return state.is === "somebody" ? state.session.username : undefined;
  };
  const [may] = createResource(who, () => request(`${GROUP}/memberclusters?limit=1`).then(() => true, () => false));
  return () => may.latest ?? false;
});
