/** What is charged to a project, or exists in a cluster, without a Namespace object: pure functions. */

import type { Project } from "../api/types";

type OrphanState = "orphaned" | "abandoned" | "released" | "Lost" | "Ahead" | "Released" | "Unused" | "Stranger";

/** A namespace in a cluster without a Namespace object. */
export interface Orphan {
  /** `cluster/namespace` */
  place: string;
  /** The state as in the API; `uid` identifies the entry for a write-off. */
  state: OrphanState | undefined;
  uid?: string | undefined;
  project: string | undefined;
  hard: Readonly<Record<string, string | number>> | undefined;
  reason?: string | undefined;
}

export function orphansOf({ metadata: { name: project }, status }: Project): Orphan[] {
  const held = status?.ledger?.held ?? [];
  const counted = new Set(held.map(({ uid }) => uid));
  // Skipped by the audit, too: nothing is held for it any more, and the controller removes its quota and marks.
  const isWrittenOff = (uid: string | undefined) => uid !== undefined && (status?.ledger?.writtenOff ?? []).includes(uid);
  return [
    ...held.map(({ uid, clusterName, namespace, state, hard, reason }) =>
      ({ place: `${clusterName}/${namespace}`, state: state as OrphanState, uid, project, hard, reason })),
    ...(status?.orphans ?? []).filter(({ uid, state }) => !counted.has(uid) && !(state === "Unused" && isWrittenOff(uid))).map(({ clusterName, namespace, state, hard }) =>
      ({ place: `${clusterName}/${namespace}`, state, project, hard })),
  ];
}
