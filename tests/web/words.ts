/** What the page says, from its own message files: no test repeats a text. */

import { readFileSync } from "node:fs";

export type Language = "en" | "zh";

const files = new URL("../../web/src/i18n/", import.meta.url);
const texts = Object.fromEntries(
  (["en", "zh"] as const).map((language) => [language, JSON.parse(readFileSync(new URL(`${language}.json`, files), "utf8"))]),
) as Record<Language, Record<string, string>>;

export function words(key: string, values: Record<string, string> = {}, language: Language = "en"): string {
  const text = texts[language][key];
  if (text === undefined) throw new Error(`no message ${key} in ${language}`);
  return text.replace(/\{(\w+)(?:\|([^|}]*)\|([^|}]*))?\}/g, (_, name: string, one?: string, others?: string) =>
    (one === undefined || others === undefined ? (values[name] ?? `{${name}}`) : values[name] === "1" ? one : others));
}
