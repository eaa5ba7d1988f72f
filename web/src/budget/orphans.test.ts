import { expect, it } from "vitest";
import type { Project } from "../api/types";
import { orphansOf } from "./orphans";

it("tells each namespace once, and none that is written off and in use no more", () => {
  const orphan = (uid: string, state: string) => ({ uid, state, clusterName: "c", namespace: uid, hard: { pods: "1" } });
  const project = {
    metadata: { name: "p" },
    status: {
      orphans: [orphan("held", "Unused"), orphan("done", "Unused"), orphan("used", "Released"), orphan("unused", "Unused")],
      ledger: { held: [{ uid: "held", state: "released", clusterName: "c", namespace: "held" }], writtenOff: ["done", "used"] },
    },
  } as unknown as Project;
  expect(orphansOf(project).map(({ place, state }) => [place, state])).toEqual([["c/held", "released"], ["c/used", "Released"], ["c/unused", "Unused"]]);
});
