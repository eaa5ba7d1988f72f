/** What counts, or may be used, without an object: pure functions of what the server said. */

import type { Project } from "../api/types";

type FoundState = "orphaned" | "abandoned" | "released" | "Lost" | "Ahead" | "Released" | "Unused" | "Stranger";

/** What counts, or may be used, without an object. */
export interface Found {
  /** `cluster/namespace` */
  place: string;
  /** As the API has it, and what names it for a write-off. */
  state: FoundState | undefined;
  uid?: string | undefined;
  project: string | undefined;
  hard: Readonly<Record<string, string | number>> | undefined;
  reason?: string | undefined;
}

export function withoutObject({ metadata: { name: project }, status }: Project): Found[] {
  const held = status?.ledger?.held ?? [];
  const counted = new Set(held.map(({ uid }) => uid));
  // As the audit does: nothing is held for it any more, and its quota and marks go by themselves.
  const isWrittenOff = (uid: string | undefined) => uid !== undefined && (status?.ledger?.writtenOff ?? []).includes(uid);
  return [
    ...held.map(({ uid, clusterName, namespace, state, hard, reason }) =>
      ({ place: `${clusterName}/${namespace}`, state: state as FoundState, uid, project, hard, reason })),
    ...(status?.orphans ?? []).filter(({ uid, state }) => !counted.has(uid) && !(state === "Unused" && isWrittenOff(uid))).map(({ clusterName, namespace, state, hard }) =>
      ({ place: `${clusterName}/${namespace}`, state, project, hard })),
  ];
}
