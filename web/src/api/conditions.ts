/** Conditions of objects: pure functions. */

import type { Condition } from "./types";

/** Conditions that are True when something is unusual. */
const NEGATIVE_CONDITIONS = new Set(["Terminating", "Replaced", "OtherAccess"]);

export type Grade = "good" | "noted" | "urgent";

export function gradeOf({ type, status }: Condition): Grade {
  if (NEGATIVE_CONDITIONS.has(type)) return status === "True" ? "noted" : "good";
  return status === "True" ? "good" : status === "False" ? "urgent" : "noted";
}

/** An object that has conditions. */
export interface WithConditions {
  status?: { conditions?: unknown } | undefined;
}

export function conditionsOf({ status }: WithConditions): Condition[] {
  return (status?.conditions ?? []) as Condition[];
}

/** Conditions that are not good, urgent ones first, without those that repeat the reason and message of another. */
export function problemsOf(object: WithConditions): Condition[] {
  const wrong = conditionsOf(object).filter((one) => gradeOf(one) !== "good");
  const said = new Set<string>();
  return wrong.sort((a, b) => Number(gradeOf(b) === "urgent") - Number(gradeOf(a) === "urgent")).filter(({ type, reason = "", message = "" }) => {
    const words = reason === "" && message === "" ? type : `${reason}\n${message}`;
    if (said.has(words)) return false;
    said.add(words);
    return true;
  });
}
