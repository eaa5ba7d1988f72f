import { createSignal } from "solid-js";
import { formatExact, formatRounded } from "../amounts/format";
import type { Amount } from "../amounts/quantity";

export type Precision = "rounded" | "exact";
const STORAGE_KEY = "business-console-amounts";

const [precision, setPrecision] = createSignal<Precision>(localStorage.getItem(STORAGE_KEY) === "exact" ? "exact" : "rounded");
export { precision };

/** Sets the precision of amounts in this browser. */
export function choosePrecision(wanted: Precision): void {
  localStorage.setItem(STORAGE_KEY, wanted);
  setPrecision(wanted);
}

/** An amount in the chosen precision. */
export function formatAmount(amount: Amount, resource: string): string {
  return precision() === "exact" ? formatExact(amount, resource) : formatRounded(amount, resource);
}
