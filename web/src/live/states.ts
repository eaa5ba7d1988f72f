/** What becomes of several feeds at once: pure functions. */

import type { FeedState } from "./feed";

/** The server says that this is not for whoever asks. */
export function isForbidden(state: FeedState): boolean {
  return state.at === "refused" && state.error.code === 403;
}

/** Feeds of which somebody may see nothing are not waited for. */
export function seen(...states: FeedState[]): FeedState[] {
  return states.filter((state) => !isForbidden(state));
}
