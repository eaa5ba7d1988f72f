import { expect, it } from "vitest";
import { ApiError } from "../api/status";
import type { FeedState } from "./feed";
import { hasBeenRead, withoutForbidden } from "./states";

it("waits for all feeds but those that are not for whoever asks", () => {
  const refused = (code: number): FeedState => ({ at: "refused", error: new ApiError({ kind: "Status" }, code), retry: () => {} });
  const [loading, broken] = [{ at: "loading" } as const, refused(401)];
  expect(withoutForbidden(loading, refused(403), broken)).toEqual([loading, broken]);
});

it("knows what was read, if only once", () => {
  const states: FeedState[] = [{ at: "loading" }, { at: "unread", why: "" }, { at: "live" }, { at: "cut", since: 0, why: "" }];
  expect(states.map(hasBeenRead)).toEqual([false, false, true, true]);
});
