import { createSignal } from "solid-js";

export type Theme = "system" | "light" | "dark";
const STORAGE_KEY = "business-console-theme";

const [theme, setTheme] = createSignal<Theme>((localStorage.getItem(STORAGE_KEY) as Theme | null) ?? "system");
export { theme };

/** Sets the theme of this browser. */
export function chooseTheme(wanted: Theme): void {
  localStorage.setItem(STORAGE_KEY, wanted);
  setTheme(wanted);
  apply();
}

export function apply(): void {
  document.documentElement.dataset["theme"] = theme();
}
