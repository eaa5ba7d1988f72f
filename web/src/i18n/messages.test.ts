import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import en from "./en.json";
import { t } from "./messages";
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

it("has the word for one", () => {
  expect([0, 1, 2].map((count) => t("projects.count", { count }))).toEqual(["0 projects", "1 project", "2 projects"]);
  expect(t("act.delete.project", { projects: 1, namespaces: 1 })).toMatch(/^With it go 1 project below it and 1 namespace,/);
});

it("says of the deletion of a project that what is in the registry goes, too", () => {
  expect(en["act.delete.project"]).toMatch(/image namespaces and chart groups with what they hold in the registry/);
  expect(zh["act.delete.project"]).toContain("镜像仓库中的内容会全部删除");
});

it("has no message that nobody says", () => {
  const starts = (key: string) => [...key.matchAll(/\./g)].map(({ index }) => key.slice(0, index + 1));
  const isSaid = (key: string) => text.includes(`"${key}"`) || starts(key).some((start) => text.includes(`\`${start}\${`));
  const unsaid = Object.keys(en).filter((key) => !isSaid(key));
  expect(unsaid).toEqual([]);
});

const rust = (file: string) => readFileSync(new URL(`../../../crates/business-types/src/${file}.rs`, import.meta.url), "utf8");

it("has plain words for each state of each condition that our programs set", () => {
  const [types = ""] = rust("condition").split("/// The condition holds.");
  const names = [...types.matchAll(/^pub const \w+: &str = "(\w+)";/gm)].map(([, name]) => name ?? "");
  expect(names.length).toBeGreaterThan(15);
  const wanted = names.flatMap((name) => ["True", "False", "Unknown"].map((status) => `condition.${name}.${status}`));
  expect(Object.keys(en).filter((key) => key.startsWith("condition.")).sort()).toEqual(wanted.sort());
});

it("has a word for each phase of a project and a namespace", () => {
  const phases = ["project", "namespace"].flatMap((file) => {
    const [, body = ""] = /^pub enum \w+Phase \{(.*?)^\}/ms.exec(rust(file)) ?? [];
    return [...body.matchAll(/^ {4}(\w+),/gm)].map(([, phase]) => `phase.${phase}`);
  });
  expect(phases.length).toBeGreaterThan(6);
  expect(Object.keys(en).filter((key) => key.startsWith("phase.")).sort()).toEqual([...new Set(phases)].sort());
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
