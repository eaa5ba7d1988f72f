/** A refusal as a picture: how far what is asked for goes beyond a limit. */

import type { Amount } from "../amounts/quantity";
import type { LevelCause } from "../api/status";

export interface RefusedPicture {
  /** The length of the bar: nothing reaches beyond it. */
  whole: Amount;
  /** Given to others. */
  given: Amount;
  /** Where what is asked for ends; as far as `given` where a limit is to be lowered. */
  asked: Amount;
  /** The limit that is gone beyond, or the one that is wished for. */
  limit: Amount;
}

export function pictured({ reason, requested, hard, allocated, fits }: LevelCause): RefusedPicture {
  if (reason === "BelowAllocated") {
    return { whole: most(allocated, requested), given: allocated, asked: allocated, limit: requested };
  }
  // What is asked for is the whole charge: what fits is that of the object before, and the room beside all.
  const given = most(most(hard, allocated) - fits, 0n);
  const asked = given + requested;
  return { whole: most(hard, asked), given, asked, limit: hard };
}

function most(a: Amount, b: Amount): Amount {
  return a > b ? a : b;
}
