/** States of several feeds: pure functions. */

import type { FeedState } from "./feed";

/** Whether the user may not read the collection. */
export function isForbidden(state: FeedState): boolean {
  return state.at === "refused" && state.error.code === 403;
}

/** Whether the collection was listed once; before that a missing object means nothing. */
export function hasBeenRead({ at }: FeedState): boolean {
  return at === "live" || at === "cut";
}

/** Whether the collection was not listed yet, and may be. */
export function mayYetBeRead(state: FeedState): boolean {
  return !hasBeenRead(state) && state.at !== "refused";
}

/** Leaves out collections that the user may not read, so that a page does not wait for them. */
export function withoutForbidden(...states: FeedState[]): FeedState[] {
  return states.filter((state) => !isForbidden(state));
}
