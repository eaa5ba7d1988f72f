import { expect, it } from "vitest";
import { fieldPathsOf, recentChanges } from "./recent";

it("tells where somebody has written, and of the status only that it was written", () => {
  const fieldsV1 = { "f:spec": { "f:clusters": { "f:east": {} }, "f:access": {} }, "f:status": { "f:phase": {} }, "f:metadata": { "f:labels": { ".": {} } } };
  expect(fieldPathsOf({ fieldsV1 })).toEqual(["metadata.labels", "spec.access", "spec.clusters", "status"]);
  expect(fieldPathsOf({})).toEqual([]);
});

it("puts the newest first, whatever it is", () => {
  const metadata = {
    name: "a", uid: "u", resourceVersion: "1", creationTimestamp: "2026-03-01T00:00:00Z", deletionTimestamp: "2026-03-04T00:00:00Z",
    managedFields: [{ manager: "kubectl", time: "2026-03-02T00:00:00Z" }, { manager: "unknown when" }],
  };
  const conditions = [{ type: "Ready", status: "True", lastTransitionTime: "2026-03-03T00:00:00Z" }, { type: "Young", status: "True" }];
  expect(recentChanges({ metadata, status: { conditions } }).map(({ is }) => is)).toEqual(["deleted", "condition", "written", "created"]);
});
