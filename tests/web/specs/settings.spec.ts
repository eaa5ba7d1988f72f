import type { Page } from "@playwright/test";
import { type Language, words } from "../words";
import { choose, expect, test } from "./fixtures";

const ground = (page: Page) => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);

test("a language is chosen by a click, and lasts", async ({ console }) => {
  const page = await console.as("alice");
  const title = (language: Language) => page.getByRole("heading", { name: words("projects.title", {}, language) });
  await expect(title("en")).toBeVisible();
  await choose(page, "中文");
  await expect(title("zh")).toBeVisible();
  await page.reload();
  await expect(title("zh")).toBeVisible();
  await expect(page.locator("html")).toHaveAttribute("lang", "zh");
  await choose(page, "English");
  await expect(title("en")).toBeVisible();
});

test("an appearance is chosen by a click, and lasts", async ({ console }) => {
  const page = await console.as("alice");
  await page.emulateMedia({ colorScheme: "light" });
  const light = await ground(page);
  await choose(page, words("theme.dark"));
  await expect.poll(() => ground(page)).not.toBe(light);
  const dark = await ground(page);
  await page.reload();
  await expect(page.getByRole("heading", { name: words("projects.title") })).toBeVisible();
  expect(await ground(page)).toBe(dark);
  await choose(page, words("theme.system"));
  await expect.poll(() => ground(page)).toBe(light);
});

test("amounts are exact where somebody wants them so, and that lasts", async ({ console }) => {
  const page = await console.as("alice", "/console/projects/shop/namespaces/local-batch");
  const granted = (text: string) =>
    page.getByRole("row", { name: /^requests\.cpu/ }).getByRole("cell").nth(1).getByText(text, { exact: true });
  await expect(granted("2.5")).toBeVisible();
  await choose(page, words("amounts.exact"));
  await expect(granted("2500m")).toBeVisible();
  await page.reload();
  await expect(granted("2500m")).toBeVisible();
  await choose(page, words("amounts.rounded"));
  await expect(granted("2.5")).toBeVisible();
});

test("the menu of the account keeps nobody out", async ({ console }) => {
  const page = await console.as("alice");
  await page.getByRole("banner").getByRole("button").click();
  await expect(page.getByRole("menu")).toBeVisible();
  await console.isWellMade(page, "account");
});
