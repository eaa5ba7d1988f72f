import type { Page } from "@playwright/test";
import { words } from "../words";
import { expect, test } from "./fixtures";
import { OPERATORS, PAGES, type PageName } from "./routes";

const visitor = (name: PageName) => (OPERATORS.has(name) ? "oscar" : "alice");

/** Something of the page's own is there, and nothing is still loading. */
async function isSettled(page: Page): Promise<void> {
  await expect(page.getByRole("heading").first()).toBeVisible();
  await expect(page.getByText(words("state.loading"))).toHaveCount(0);
}

for (const name of Object.keys(PAGES) as PageName[]) {
  test(`${name} keeps nobody out, in both themes and at every width`, async ({ console }) => {
    const page = await console.as(visitor(name), PAGES[name]);
    await isSettled(page);
    await console.isWellMade(page, name);
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

test.describe("in Chinese", () => {
  test.use({ locale: "zh-CN" });

  for (const name of Object.keys(PAGES) as PageName[]) {
    test(`${name} is said in Chinese, and keeps nobody out`, async ({ console }) => {
      const page = await console.as(visitor(name), PAGES[name]);
      await expect(page.locator("html")).toHaveAttribute("lang", /^zh/);
      await expect(page.getByRole("link", { name: words("nav.projects", {}, "zh"), exact: true })).toBeVisible();
      await expect(page.getByText(words("state.loading", {}, "zh"))).toHaveCount(0);
      await console.isAccessible(page);
      await page.screenshot({ path: `output/pages/${name}-zh.png`, fullPage: true });
    });
  }
});

test("the whole way goes by keyboard", async ({ console }) => {
  const page = await console.as("alice");
  await expect(console.row(page, "shop")).toBeVisible();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: words("nav.skip") })).toBeFocused();
  const link = console.row(page, "shop").getByRole("link");
  for (let presses = 0; presses < 60 && !(await link.evaluate((element) => element === document.activeElement)); presses += 1) {
    await page.keyboard.press("Tab");
  }
  await expect(link).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/projects\/shop$/);
});
