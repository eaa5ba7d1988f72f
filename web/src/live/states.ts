/** What becomes of several feeds at once: pure functions. */

import type { FeedState } from "./feed";

/** The server says that this is not for whoever asks. */
export function isForbidden(state: FeedState): boolean {
  return state.at === "refused" && state.error.code === 403;
}

/** Whether what there is was read once: until then nothing follows from what is not there. */
export function isRead({ at }: FeedState): boolean {
  return at === "live" || at === "cut";
}

/** Feeds of which somebody may see nothing are not waited for. */
export function seen(...states: FeedState[]): FeedState[] {
  return states.filter((state) => !isForbidden(state));
}
