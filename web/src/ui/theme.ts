import { createSignal } from "solid-js";

export type Theme = "system" | "light" | "dark";
const KEPT = "business-console-theme";

const [theme, setTheme] = createSignal<Theme>((localStorage.getItem(KEPT) as Theme | null) ?? "system");
export { theme };

/** What somebody wants, on this browser. */
export function paint(wanted: Theme): void {
  localStorage.setItem(KEPT, wanted);
  setTheme(wanted);
  apply();
}

export function apply(): void {
  document.documentElement.dataset["theme"] = theme();
}
