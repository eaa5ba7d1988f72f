import type { Page } from "@playwright/test";
import { type Language, words } from "../words";
import { expect, test } from "./fixtures";
import { OPERATORS, PAGES, type PageName } from "./routes";

const visitor = (name: PageName) => (OPERATORS.has(name) ? "oscar" : "alice");

/** As the page keeps it for its browser. */
const LANGUAGE_KEPT = ["business-console-language", "zh"] as const;

/** The page is there in that language, and nothing is still loading. */
async function isSettled(page: Page, language: Language = "en"): Promise<void> {
  await expect(page.getByRole("link", { name: words("nav.projects", {}, language), exact: true })).toBeVisible();
  await expect(page.getByRole("heading").first()).toBeVisible();
  await expect(page.getByText(words("state.loading", {}, language))).toHaveCount(0);
}

for (const name of Object.keys(PAGES) as PageName[]) {
  test(`${name} keeps nobody out, in both themes and languages and at every width`, async ({ console }) => {
    const page = await console.as(visitor(name), PAGES[name]);
    await isSettled(page);
    await console.isWellMade(page, name);
    await page.evaluate(([key, value]) => localStorage.setItem(key, value), LANGUAGE_KEPT);
    await page.reload();
    await isSettled(page, "zh");
    await expect(page.locator("html")).toHaveAttribute("lang", "zh");
    await console.isAccessible(page, "words");
    await page.screenshot({ path: `output/pages/${name}-zh.png`, fullPage: true });
  });
}

test("the login keeps nobody out", async ({ console, page, platform }) => {
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await page.goto(platform.origin + PAGES.projects);
    await expect(page.getByRole("heading", { name: words("login.title") })).toBeVisible();
    await console.isAccessible(page);
    await page.screenshot({ path: `output/pages/login-${colorScheme}.png` });
  }
});

test.describe("a browser that speaks Chinese", () => {
  test.use({ locale: "zh-CN" });

  test("is answered in Chinese from the login on", async ({ console, page, platform }) => {
    await page.goto(platform.origin + PAGES.projects);
    await expect(page.getByRole("heading", { name: words("login.title", {}, "zh") })).toBeVisible();
    await console.isAccessible(page, "words");
    await console.as("alice");
    await isSettled(page, "zh");
  });
});

test("the whole way goes by keyboard", async ({ console }) => {
  const page = await console.as("alice");
  await expect(console.row(page, "shop")).toBeVisible();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: words("nav.skip") })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("main")).toBeFocused();
  const link = console.row(page, "shop").getByRole("link");
  for (let presses = 0; presses < 60 && !(await link.evaluate((element) => element === document.activeElement)); presses += 1) {
    await page.keyboard.press("Tab");
  }
  await expect(link).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/projects\/shop$/);
});
