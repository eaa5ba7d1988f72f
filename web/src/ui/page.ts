/** Pages that are loaded when somebody first goes there. */

import { type Component, lazy } from "solid-js";

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

/** A page that, where it cannot be had, says how it is asked for again. */
export function page(load: () => Promise<Component>) {
  return lazy(async () => {
    try {
      return { default: await load() };
    } catch (error) {
      throw new NotLoaded(load, error);
    }
  });
}
