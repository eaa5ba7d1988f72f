/** The collections that pages subscribe to. */

import { createEffect, createMemo, createRoot, createSignal, on, onCleanup } from "solid-js";
import { GROUP, request } from "./client";
import type { RegistryPlural } from "./registry";
import { identityOf, sessionState } from "./session";
import { ApiError } from "./status";
import type { ChartGroup, ImageNamespace, MemberCluster, Namespace, Platform, Project, Tenant } from "./types";
import { type Collection, subscribe } from "../live/store";

export const projects = (): Collection<Project> => subscribe(`${GROUP}/projects`);
export const namespaces = (): Collection<Namespace> => subscribe(`${GROUP}/namespaces`);
export const namespacesOf = (project: string): Collection<Namespace> => subscribe(`${GROUP}/namespaces/${encodeURIComponent(project)}/namespaces`);
/** The objects of a project in the registry, by the plural of their kind. */
export const registryObjectsOf = (project: string, plural: RegistryPlural): Collection<ImageNamespace | ChartGroup> =>
  subscribe(`${GROUP}/namespaces/${encodeURIComponent(project)}/${plural}`);
export const tenants = (): Collection<Tenant> => subscribe(`${GROUP}/tenants`);
export const platforms = (): Collection<Platform> => subscribe(`${GROUP}/platforms`);
export const clusters = (): Collection<MemberCluster> => subscribe(`${GROUP}/memberclusters`);

/** The API path of an object. */
export function pathOf(plural: string, name: string, namespace?: string): string {
  const place = namespace ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  return `${GROUP}${place}/${plural}/${encodeURIComponent(name)}`;
}

/** The API path of the object in a page's URL: `name`, or `project/name` for a namespaced object. */
export function pathOfRoute(plural: string, place: string): string {
  const [first = "", second = ""] = place.split("/");
  return second === "" ? pathOf(plural, first) : pathOf(plural, second, first);
}

const RETRY_MS = 5_000;

/** Whether the user may read what only operators may. The server authorizes each request; this only hides links that would fail. */
export const isOperator = createRoot(() => {
  const [may, setMay] = createSignal(false);
  const who = createMemo(() => {
    const state = sessionState();
    return state.is === "loggedIn" ? identityOf(state.session) : state.is === "offline" ? undefined : "";
  });
  createEffect(on(who, (identity) => {
    // Keep the last answer while the server is offline.
    if (identity === undefined) return;
    if (identity === "") return void setMay(false);
    const asking = new AbortController();
    onCleanup(() => asking.abort());
    void isAllowed(() => request(`${GROUP}/memberclusters?limit=1`, { signal: asking.signal }), asking.signal).then(
      (answer) => !asking.signal.aborted && setMay(answer), () => undefined);
  }));
  return may;
});

/** Whether a request is not forbidden. Any other failure says nothing about the rights, so it is retried. */
export async function isAllowed(ask: () => Promise<unknown>, signal: AbortSignal): Promise<boolean> {
  try {
    await retried(ask, signal, (error) => error instanceof ApiError && error.code === 403);
    return true;
  } catch {
    return false;
  }
}

/** Sends a request until it succeeds or its failure is final. Rejects with that failure, or when the signal is aborted. */
export async function retried<T>(
  ask: () => Promise<T>, signal: AbortSignal, isFinal: (error: unknown) => boolean, onFailure: (error: unknown) => void = () => {},
): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (signal.aborted || isFinal(error)) throw error;
      onFailure(error);
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    signal.throwIfAborted();
  }
}
