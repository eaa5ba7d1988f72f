import type { Page } from "@playwright/test";
import { type Language, words } from "../words";
import { choose, expect, test } from "./fixtures";
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

/** Pages of which the stand-in has every state, and a platform that has just begun has few. */
const FULLER: ReadonlySet<PageName> = new Set(["projects", "clusters", "findings", "nowhere"]);

for (const name of Object.keys(PAGES) as PageName[]) {
  for (const tag of FULLER.has(name) ? ["@real", "@simulated"] : [""]) {
    const full = tag === "@simulated" ? ", with every state," : "";
    test(`${name}${full} keeps nobody out, in both themes and languages and at every width`, tag ? { tag } : {}, async ({ console }) => {
      const picture = full ? `${name}-full` : name;
      const page = await console.as(visitor(name), PAGES[name]);
      await isSettled(page);
      await console.isWellMade(page, picture);
      await page.evaluate(([key, value]) => localStorage.setItem(key, value), LANGUAGE_KEPT);
      await page.reload();
      await isSettled(page, "zh");
      await expect(page.locator("html")).toHaveAttribute("lang", "zh");
      await console.isAccessible(page, "words");
      await page.screenshot({ path: `output/pages/${picture}-zh.png`, fullPage: true });
    });
  }
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

const isFocused = (element: Element) => element === document.activeElement;

test("the whole way goes by keyboard", async ({ console }) => {
  const page = await console.as("alice");
  const row = console.row(page, "shop");
  await expect(row).toBeVisible();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: words("nav.skip") })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("main")).toBeFocused();
  // However many rows there are, the tree is a few stops, of which one is a row.
  const inTree = () => page.getByRole("treeitem").evaluateAll((all) => all.some((one) => one === document.activeElement));
  for (let presses = 0; presses < 30 && !(await inTree()); presses += 1) await page.keyboard.press("Tab");
  await page.keyboard.press("Home");
  for (let presses = 0; presses < 60 && !(await row.evaluate(isFocused)); presses += 1) {
    await page.keyboard.press("ArrowDown");
    await expect.poll(inTree).toBe(true);
  }
  await expect(row).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/projects\/shop$/);
});

/** What is focused and lies under the bar at the top that stays there: wholly, where it is higher than half of the window. */
const hidden = () => {
  const bar = document.querySelector(".top");
  const { activeElement: focused } = document;
  if (!bar || !focused || focused === document.body || bar.contains(focused) || focused.id === "content" || focused.className === "skip") return "";
  if (getComputedStyle(bar).position === "static") return "";
  const { top, bottom, height } = focused.getBoundingClientRect();
  const begins = height > window.innerHeight / 2 ? bottom : top;
  return begins < bar.getBoundingClientRect().bottom - 1 ? focused.outerHTML.slice(0, 120) : "";
};

for (const [width, height] of [[360, 740], [1440, 500]] as const) {
  test(`whoever tabs backwards at ${width} pixels sees where he is`, async ({ console }) => {
    const page = await console.as("alice", PAGES.project);
    await isSettled(page);
    await page.setViewportSize({ width, height });
    await page.evaluate(() => window.scrollTo(0, document.body.scrollHeight));
    await page.getByRole("main").getByRole("link").last().focus();
    for (let presses = 0; presses < 40; presses += 1) {
      await page.keyboard.press("Shift+Tab");
      expect(await page.evaluate(hidden)).toBe("");
    }
  });
}

test("conditions are said in plain words, and the API's own words are English", { tag: "@simulated" }, async ({ console }) => {
  const page = await console.as("alice", PAGES.releasing);
  await page.evaluate(([key, value]) => localStorage.setItem(key, value), LANGUAGE_KEPT);
  await page.reload();
  await isSettled(page, "zh");
  const conditions = page.getByRole("region", { name: words("project.conditions", {}, "zh"), exact: true });
  await expect(conditions.getByText(words("condition.QuotaConsistent.False", {}, "zh"))).toBeVisible();
  await expect(conditions.getByText("QuotaConsistent=False (Held)")).toBeVisible();
  await expect(conditions.getByText("amounts are held")).toHaveAttribute("lang", "en");
});

test("a page of nothing has a heading of its own, and a list and its table are one region", async ({ console, platform }) => {
  const page = await console.as("alice", PAGES.nowhere);
  await expect(page.getByRole("heading", { level: 1, name: words("state.notfound") })).toBeVisible();
  await page.goto(`${platform.origin}/console/projects/nothing-is-called-so`);
  await expect(page.getByRole("heading", { level: 1, name: words("state.notfound") })).toBeVisible();
  await page.goto(platform.origin + PAGES.project);
  await expect(page.getByRole("region", { name: words("project.members"), exact: true })).toHaveCount(1);
  await expect(page.getByRole("heading", { level: 1 })).toHaveCount(1);
});

test("the title is that of the page, in its language", async ({ console, page, platform }) => {
  const title = (text: string) => `${text} · ${words("app.title")}`;
  await console.as("oscar");
  await expect(page).toHaveTitle(title(words("projects.title")));
  await page.getByRole("link", { name: words("nav.clusters"), exact: true }).click();
  await expect(page).toHaveTitle(title(words("clusters.title")));
  await choose(page, "中文");
  await expect(page).toHaveTitle(`${words("clusters.title", {}, "zh")} · ${words("app.title", {}, "zh")}`);
  await choose(page, "English");
  await page.goto(`${platform.origin}/console/projects/nothing-is-called-so`);
  await expect(page).toHaveTitle(title(words("state.notfound")));
});
