/** Pages that are loaded when somebody first goes there. */

import { type Component, createComponent, lazy } from "solid-js";

/** A page's code could not be had: nothing answered, or an upgrade has taken it away. */
export class NotLoaded extends Error {
  constructor(
    /** Rejects while it cannot be had. */
    readonly again: () => Promise<unknown>,
    cause: unknown,
  ) {
    super(String(cause), { cause });
  }
}

/** A page that is asked for anew after a failure, which Solid would keep. */
export function page(load: () => Promise<Component>): Component {
  const made = () => lazy(async () => {
    try {
      return { default: await load() };
    } catch (error) {
      current = made();
      throw new NotLoaded(load, error);
    }
  });
  let current = made();
  const preload = () => {
    // Whoever only points at a link is not told.
    void current.preload().catch(() => undefined);
  };
  return Object.assign(() => createComponent(current, {}), { preload });
}
