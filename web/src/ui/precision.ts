import { createSignal } from "solid-js";
import { exact, forPeople } from "../amounts/people";
import type { Amount } from "../amounts/quantity";

export type Precision = "rounded" | "exact";
const KEPT = "business-console-amounts";

const [precision, setPrecision] = createSignal<Precision>(localStorage.getItem(KEPT) === "exact" ? "exact" : "rounded");
export { precision };

/** How somebody wants amounts, on this browser. */
export function tellAmounts(wanted: Precision): void {
  localStorage.setItem(KEPT, wanted);
  setPrecision(wanted);
}

/** An amount as it is wanted. */
export function said(amount: Amount, resource: string): string {
  return precision() === "exact" ? exact(amount, resource) : forPeople(amount, resource);
}
