/** The collections that the pages follow. */

import { createEffect, createMemo, createRoot, createSignal, on, onCleanup } from "solid-js";
import { GROUP, request } from "./client";
import { sessionState } from "./session";
import { ApiError } from "./status";
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

/** Where an object is that the address of a page names: by its name, and before that its project, if it lies in one. */
export function pathOfPlace(plural: string, place: string): string {
  const [first = "", second = ""] = place.split("/");
  return second === "" ? pathOf(plural, first) : pathOf(plural, second, first);
}

const ASK_AGAIN_MS = 5_000;

/** Whether somebody may look at what is the operators'. The server decides that of each act; here it keeps links away that lead nowhere. */
export const isOperator = createRoot(() => {
  const [may, setMay] = createSignal(false);
  const who = createMemo(() => {
    const state = sessionState();
    return state.is === "somebody" ? state.session.username : state.is === "offline" ? undefined : "";
  });
  createEffect(on(who, (name) => {
    // What is known stays while the server is away.
    if (name === undefined) return;
    if (name === "") return void setMay(false);
    const asking = new AbortController();
    onCleanup(() => asking.abort());
    void isLet(() => request(`${GROUP}/memberclusters?limit=1`, { signal: asking.signal }), asking.signal).then(
      (answer) => !asking.signal.aborted && setMay(answer), () => undefined);
  }));
  return may;
});

/** Asks until there is an answer: a request that fails for another reason than a refusal says nothing. */
export async function isLet(ask: () => Promise<unknown>, signal: AbortSignal): Promise<boolean> {
  for (;;) {
    try {
      await ask();
      return true;
    } catch (error) {
      if (signal.aborted || (error instanceof ApiError && error.code === 403)) return false;
    }
    await new Promise((resolve) => setTimeout(resolve, ASK_AGAIN_MS));
    if (signal.aborted) return false;
  }
}
