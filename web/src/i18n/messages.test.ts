import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import en from "./en.json";
import zh from "./zh.json";

const SOURCE = new URL("..", import.meta.url).pathname;
const files = readdirSync(SOURCE, { recursive: true, encoding: "utf8" }).filter((file) => /\.tsx?$/.test(file) && !file.includes(".test."));
const text = files.map((file) => readFileSync(join(SOURCE, file), "utf8")).join("\n");
const places = (message: string) => [...message.matchAll(/\{\w+\}/g)].map(String).sort();

it("says everything in both languages, with the same places", () => {
  expect(Object.keys(zh)).toEqual(Object.keys(en));
  for (const [key, message] of Object.entries(en)) {
    expect(places(zh[key as keyof typeof en]), key).toEqual(places(message));
  }
});

it("has no message that nobody says", () => {
  const isSaid = (key: string) => text.includes(`"${key}"`) || text.includes(`\`${key.slice(0, key.lastIndexOf(".") + 1)}$`);
  const unsaid = Object.keys(en).filter((key) => !isSaid(key));
  expect(unsaid).toEqual([]);
});

it("says nothing outside of the messages", () => {
  const shown = /[a-z"}]>\s*([A-Za-z][A-Za-z ]{2,})\s*<\//g;
  // Three words in a row are a sentence; classes are none.
  const sentence = /(?<!class=)"([A-Za-z]+(?: [a-z]+){2,}[^"\n]*)"/g;
  const outside = files.flatMap((file) => {
    const source = readFileSync(join(SOURCE, file), "utf8");
    return [shown, sentence].flatMap((pattern) => [...source.matchAll(pattern)].map((match) => `${file}: ${match[1]}`));
  });
  expect(outside).toEqual([]);
});
