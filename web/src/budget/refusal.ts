/** The bar of a refusal: how far the request exceeds a limit. */

import type { Amount } from "../amounts/quantity";
import type { LevelCause } from "../api/status";

export interface RefusalBarLengths {
  /** The length of the whole bar. */
  whole: Amount;
  /** What others hold. */
  given: Amount;
  /** Where the request ends; equal to `given` if a limit is lowered. */
  asked: Amount;
  /** The limit that is exceeded, or the new limit. */
  limit: Amount;
}

export function refusalBarLengths({ reason, requested, hard, allocated, fits }: LevelCause): RefusalBarLengths {
  if (reason === "BelowAllocated") {
    return { whole: max(allocated, requested), given: allocated, asked: allocated, limit: requested };
  }
  // `requested` is the whole charge. `fits` includes what the object is charged already, so the rest belongs to others.
  const given = max(max(hard, allocated) - fits, 0n);
  const asked = given + requested;
  return { whole: max(hard, asked), given, asked, limit: hard };
}

function max(a: Amount, b: Amount): Amount {
  return a > b ? a : b;
}
