/** Every text of the console, in the language of its reader. */

import { createSignal } from "solid-js";
import en from "./en.json";
import zh from "./zh.json";

export type MessageKey = keyof typeof en;
export type Language = "en" | "zh";
/** Each in its own words. */
export const LANGUAGES: Record<Language, string> = { en: "English", zh: "中文" };

const MESSAGES: Record<Language, Record<MessageKey, string>> = { en, zh };
const KEPT = "business-console-language";

const [language, setLanguage] = createSignal<Language>(initial());
export { language };

export function speak(wanted: Language): void {
  localStorage.setItem(KEPT, wanted);
  setLanguage(wanted);
}

/** `{count}`, or `{count|project|projects}`: the word for one, and for any other number. */
const PLACE = /\{(\w+)(?:\|([^|}]*)\|([^|}]*))?\}/g;

/** A text with its places filled. */
export function t(key: MessageKey, places: Readonly<Record<string, string | number>> = {}): string {
  return MESSAGES[language()][key].replace(PLACE, (_, name: string, one?: string, others?: string) =>
    (one === undefined || others === undefined ? String(places[name] ?? "") : places[name] === 1 ? one : others));
}

/** The message of that key, or the text where there is none: what the API may name one day. */
export function messageOr(key: string, otherwise: string): string {
  return Object.hasOwn(en, key) ? t(key as MessageKey) : otherwise;
}

/** A moment, as people say it where they are. */
export function moment(when: string | number): string {
  return new Intl.DateTimeFormat(language(), { dateStyle: "medium", timeStyle: "short" }).format(new Date(when));
}

/** The same to the second, today. */
export function instant(when: number): string {
  return new Intl.DateTimeFormat(language(), { timeStyle: "medium" }).format(new Date(when));
}

/** Thousandths as percent. */
export function percent(thousandths: number): string {
  return `${Math.floor(thousandths / 10)} %`;
}

function initial(): Language {
  if (typeof localStorage === "undefined") return "en";
  const kept = localStorage.getItem(KEPT) ?? navigator.language;
  return kept.startsWith("zh") ? "zh" : "en";
}
