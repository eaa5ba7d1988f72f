/** Every text of the console, in the language of the user. */

import { createSignal } from "solid-js";
import en from "./en.json";
import zh from "./zh.json";

export type MessageKey = keyof typeof en;
export type Language = "en" | "zh";
/** The name of each language in that language. */
export const LANGUAGES: Record<Language, string> = { en: "English", zh: "中文" };

const MESSAGES: Record<Language, Record<MessageKey, string>> = { en, zh };
const STORAGE_KEY = "business-console-language";

const [language, setLanguage] = createSignal<Language>(initial());
export { language };

export function chooseLanguage(wanted: Language): void {
  localStorage.setItem(STORAGE_KEY, wanted);
  setLanguage(wanted);
}

/** `{count}`, or `{count|project|projects}`: singular and plural. */
const PLACEHOLDER = /\{(\w+)(?:\|([^|}]*)\|([^|}]*))?\}/g;

/** The message of a key, with its placeholders filled in. */
export function t(key: MessageKey, places: Readonly<Record<string, string | number>> = {}): string {
  return MESSAGES[language()][key].replace(PLACEHOLDER, (_, name: string, one?: string, others?: string) =>
    (one === undefined || others === undefined ? String(places[name] ?? "") : places[name] === 1 ? one : others));
}

/** The message of a key; `otherwise` for a key without message, which a newer API may send. */
export function messageOr(key: string, otherwise: string): string {
  return Object.hasOwn(en, key) ? t(key as MessageKey) : otherwise;
}

/** A date and time in the language of the user. */
export function formatDateTime(when: string | number): string {
  return new Intl.DateTimeFormat(language(), { dateStyle: "medium", timeStyle: "short" }).format(new Date(when));
}

/** A time of day, to the second. */
export function formatTimeOfDay(when: number): string {
  return new Intl.DateTimeFormat(language(), { timeStyle: "medium" }).format(new Date(when));
}

/** Thousandths as percent, rounded down. */
export function percent(thousandths: number): string {
  return `${Math.floor(thousandths / 10)} %`;
}

function initial(): Language {
  if (typeof localStorage === "undefined") return "en";
  const kept = localStorage.getItem(STORAGE_KEY) ?? navigator.language;
  return kept.startsWith("zh") ? "zh" : "en";
}
