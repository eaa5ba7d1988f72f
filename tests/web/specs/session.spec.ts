import type { Page } from "@playwright/test";
import type { Platform } from "../platform";
import { words } from "../words";
import { ask } from "./asking";
import { expect, test } from "./fixtures";
import { PAGES } from "./routes";

/** As after a sleep that is longer than a token lasts. On a platform that would take five minutes. */
async function endToken(page: Page, platform: Platform): Promise<void> {
  await page.context().addCookies([{ name: "stand-in-ended", value: "1", url: platform.origin }]);
}

test("whoever comes back after his token has ended goes on", { tag: "@simulated" }, async ({ console, platform }) => {
  const page = await console.logsIn("alice", PAGES.project);
  await endToken(page, platform);
  await page.reload();
  await expect(page.getByRole("link", { name: words("nav.projects"), exact: true })).toBeVisible();
  await expect(page.getByRole("heading", { name: words("login.title") })).toHaveCount(0);
});

test("what is typed outlives its token", { tag: "@simulated" }, async ({ console, platform }) => {
  const page = await console.logsIn("bob", PAGES.newNamespace);
  await ask(page, `slept-${Date.now() % 100_000}`, "100m");
  await expect(page.getByText(words("form.fits"))).toBeVisible();
  await endToken(page, platform);
  await page.getByLabel(words("form.amount.of", { resource: "requests.cpu" }), { exact: true }).fill("90");
  await expect(page.getByText(words("form.refused"))).toBeVisible();
  await expect(page.getByRole("heading", { name: words("login.title") })).toHaveCount(0);
});

test("an end that comes near is told in time, and moves no focus", { tag: "@simulated" }, async ({ console, page }) => {
  const ends = new Date(Date.now() + 300_000).toISOString();
  await page.route("**/console/session", async (route) => {
    const response = await route.fetch();
    return response.ok() ? route.fulfill({ response, json: { ...(await response.json()), expires: ends, ends } }) : route.fulfill({ response });
  });
  await console.logsIn("alice");
  const notice = page.getByRole("status").filter({ hasText: words("account.again") });
  await expect(notice).toBeVisible();
  expect(await page.evaluate(() => document.activeElement?.tagName)).toBe("BODY");
  await expect(notice.getByRole("link")).toHaveAttribute("target", "_blank");
  await console.isAccessible(page);
});

test("a logout that nobody hears is told", async ({ console, page }) => {
  await console.logsIn("alice");
  const leave = async () => {
    await page.getByRole("button", { name: words("account.menu", { name: "alice" }) }).click();
    await page.getByRole("menuitem", { name: words("account.logout") }).click();
  };
  await page.route("**/console/logout", (route) => route.abort());
  await leave();
  await expect(page.getByRole("alert")).toHaveText(words("account.stays", { why: words("state.unanswered") }));
  await expect(page.getByRole("heading", { name: words("projects.title") })).toBeVisible();
  await page.unroute("**/console/logout");
  await leave();
  await expect(page.getByRole("heading", { name: words("login.title") })).toBeVisible();
});

test("a login whose ways cannot be asked for says so, and asks again", async ({ console, page, platform }) => {
  await page.route("**/console/config", (route) => route.abort());
  await page.goto(platform.origin + PAGES.projects);
  await expect(page.getByRole("alert")).toHaveText(words("login.failed", { why: words("state.unanswered") }));
  await console.isAccessible(page);
  await page.unroute("**/console/config");
  await page.getByRole("button", { name: words("state.again") }).click();
  await expect(page.getByRole("alert")).toHaveCount(0);
  await expect(page.getByRole("main").getByRole("button").first()).toHaveText(new RegExp(`^${words("login.with").split("{")[0]}`));
});

test("a session that is refused is told with the reason", async ({ page, platform }) => {
  const message = "forbidden: this is no request of the console's own pages";
  await page.route("**/console/session", (route) => route.fulfill({ status: 403, json: { kind: "Status", code: 403, message } }));
  await page.goto(platform.origin + PAGES.projects);
  const told = page.getByRole("status").filter({ hasText: words("state.refused") });
  await expect(told).toContainText(message);
  await expect(page.getByText(words("state.offline"))).toHaveCount(0);
  await page.unroute("**/console/session");
  await expect(page.getByRole("heading", { name: words("login.title") })).toBeVisible({ timeout: 90_000 });
});

test("a login that fails is told, and begins again where it was going", { tag: "@real" }, async ({ console, page, platform }) => {
  await page.goto(`${platform.origin}/console/login?issuer=nobody&return=${PAGES.project}`);
  await expect(page.locator("html")).toHaveAttribute("lang", "en");
  await console.isAccessible(page);
  await page.getByRole("link").click();
  await expect(page).toHaveURL(new RegExp(`${PAGES.project}$`));
  await expect(page.getByRole("heading", { name: words("login.title") })).toBeVisible();
});

test("a language is chosen before the login, and lasts", async ({ page, platform }) => {
  await page.goto(platform.origin + PAGES.projects);
  await page.getByLabel(words("language.label")).selectOption("zh");
  for (let times = 0; times < 2; times += 1) {
    await expect(page.getByRole("heading", { name: words("login.title", {}, "zh") })).toBeVisible();
    await expect(page.locator("html")).toHaveAttribute("lang", "zh");
    await page.reload();
  }
});

test("one question that fails does not take an operator's pages away", async ({ console, page }) => {
  let failed = 0;
  await page.route(/memberclusters\?limit=1$/, (route) => {
    failed += 1;
    return failed === 1 ? route.abort() : route.continue();
  });
  await console.as("oscar");
  await expect(page.getByRole("link", { name: words("nav.clusters"), exact: true })).toBeVisible({ timeout: 90_000 });
  expect(failed).toBeGreaterThan(1);
});

test("the menu of the account says which version this is", async ({ console, page, platform }) => {
  await console.as("alice");
  const { version } = (await (await page.request.get(`${platform.origin}/console/config`)).json()) as { version: string };
  await page.getByRole("banner").getByRole("button").click();
  await expect(page.getByRole("menuitem", { name: words("account.version", { version }) })).toBeVisible();
});

test("a part of the page that an upgrade has taken away is had by loading the page anew", async ({ console, page }) => {
  const part = /\/assets\/clusters-[^/]*\.js$/;
  await page.route(part, (route) => route.fulfill({ status: 404 }));
  await console.as("oscar");
  await page.getByRole("link", { name: words("nav.clusters"), exact: true }).click();
  await expect(page.getByRole("heading", { name: words("state.error") })).toBeVisible();
  await page.unroute(part);
  await page.getByRole("button", { name: words("state.again") }).click();
  await expect(page.getByRole("heading", { name: words("clusters.title") })).toBeVisible();
});

test("a page that could not be loaded comes by itself when it can be", async ({ console, page }) => {
  const part = /\/assets\/clusters-[^/]*\.js$/;
  await page.route(part, (route) => route.abort());
  await console.as("oscar");
  await page.getByRole("link", { name: words("nav.clusters"), exact: true }).click();
  await expect(page.getByRole("alert")).toContainText(words("state.notloaded"));
  await page.unroute(part);
  await page.evaluate(() => dispatchEvent(new Event("online")));
  await expect(page.getByRole("heading", { name: words("clusters.title") })).toBeVisible();
});
