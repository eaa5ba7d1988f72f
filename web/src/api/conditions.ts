/** What conditions of objects say: pure functions. */

import type { Condition } from "./types";

/** Those that are told when something is unusual. */
const TROUBLES = new Set(["Terminating", "Replaced", "OtherAccess"]);

export type Grade = "good" | "noted" | "urgent";

export function gradeOf({ type, status }: Condition): Grade {
  if (TROUBLES.has(type)) return status === "True" ? "noted" : "good";
  return status === "True" ? "good" : status === "False" ? "urgent" : "noted";
}

/** What has conditions, as the API has it. */
export interface Conditioned {
  status?: { conditions?: unknown } | undefined;
}

export function conditionsOf({ status }: Conditioned): Condition[] {
  return (status?.conditions ?? []) as Condition[];
}

/** What is not as it should be, the urgent first. What one condition says no other one repeats. */
export function wrongOf(object: Conditioned): Condition[] {
  const wrong = conditionsOf(object).filter((one) => gradeOf(one) !== "good");
  const said = new Set<string>();
  return wrong.sort((a, b) => Number(gradeOf(b) === "urgent") - Number(gradeOf(a) === "urgent")).filter(({ type, reason = "", message = "" }) => {
    const words = reason === "" && message === "" ? type : `${reason}\n${message}`;
    if (said.has(words)) return false;
    said.add(words);
    return true;
  });
}
