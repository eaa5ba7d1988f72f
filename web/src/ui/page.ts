/** Pages whose code is loaded on the first visit. */

import { type Component, lazy } from "solid-js";

/** The code of a page could not be loaded: the server is offline, or an upgrade has removed it. */
export class PageLoadError extends Error {
  constructor(
    /** Loads it again; rejects while that fails. */
    readonly retry: () => Promise<unknown>,
    cause: unknown,
  ) {
    super(String(cause), { cause });
  }
}

/** A lazy page that throws {@link PageLoadError} if its code cannot be loaded. */
export function lazyPage(load: () => Promise<Component>) {
  return lazy(async () => {
    try {
      return { default: await load() };
    } catch (error) {
      throw new PageLoadError(load, error);
    }
  });
}
