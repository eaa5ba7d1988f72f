/** Long pages and lists: what is found in them, and where Back brings people. */

import { words } from "../words";
import { expect, test } from "./fixtures";
import { PAGES } from "./routes";

/** A window in which every page is long. */
const LOW = { width: 1000, height: 320 };

test("Back brings a long page to where it was left, and a new one begins at its top", async ({ console }) => {
  const page = await console.as("alice", PAGES.project);
  const place = () => page.evaluate(() => Math.round(window.scrollY));
  await page.setViewportSize(LOW);
  const link = page.getByRole("region", { name: words("project.members"), exact: true }).getByRole("link", { name: "local-web", exact: true });
  await link.hover();
  const left = await place();
  expect(left).toBeGreaterThan(100);
  await link.click();
  await expect(page).toHaveURL(/namespaces\/local-web$/);
  await expect(page.getByRole("heading", { level: 1, name: "local-web" })).toBeVisible();
  await expect.poll(place).toBe(0);
  await page.goBack();
  await expect(link).toBeVisible();
  await expect.poll(async () => Math.abs((await place()) - left)).toBeLessThanOrEqual(2);
  await page.goForward();
  await expect(page.getByRole("heading", { level: 1, name: "local-web" })).toBeVisible();
  await expect.poll(place).toBe(0);
  await page.goBack();
  await expect.poll(async () => Math.abs((await place()) - left)).toBeLessThanOrEqual(2);
  await page.reload();
  await expect(link).toBeVisible();
  await expect.poll(async () => Math.abs((await place()) - left)).toBeLessThanOrEqual(2);
});

test("the search finds namespaces, too", async ({ console }) => {
  const page = await console.as("alice");
  const found = page.getByRole("region", { name: words("cluster.namespaces"), exact: true });
  await expect(console.row(page, "shop")).toBeVisible();
  await expect(found).toHaveCount(0);
  await page.getByRole("searchbox").fill("local-web");
  await expect(console.row(page, "shop")).toHaveCount(0);
  await expect(found.getByRole("link", { name: "shop", exact: true }).first()).toBeVisible();
  await console.isAccessible(page);
  await found.getByRole("link", { name: "local-web", exact: true }).click();
  await expect(page).toHaveURL(new RegExp(`${PAGES.namespace}$`));
  await page.goBack();
  await page.getByRole("searchbox").fill("nothing-is-called-so");
  await expect(page.getByRole("heading", { name: words("projects.nomatch") })).toBeVisible();
});

test("a long list shows its beginning, is searched, and is as it was left", { tag: "@simulated" }, async ({ console, platform }) => {
  const one = { uid: "o-1", state: "orphaned", clusterName: "member-1", namespace: "old-etl", hard: { pods: "5" }, reason: "lost with a restore" };
  const many = Array.from({ length: 30 }, (_, n) => ({ ...one, uid: `many-${n}`, namespace: `many-${n}` }));
  platform.change("projects", undefined, "shop", { status: { ledger: { held: many } } });
  try {
    const page = await console.as("oscar", PAGES.findings);
    const held = page.getByRole("region", { name: words("findings.orphans"), exact: true });
    const rows = held.locator("tbody").getByRole("row");
    await expect(rows).toHaveCount(20);
    const search = held.getByRole("searchbox");
    await search.fill("many-27");
    await expect(rows).toHaveCount(1);
    await search.fill("nothing-is-called-so");
    await expect(held.getByText(words("table.nomatch"))).toBeVisible();
    await search.fill("many-");
    await held.getByRole("button", { name: words("table.more") }).click();
    await expect(rows).toHaveCount(30);
    await console.isAccessible(page);
    await rows.last().getByRole("link", { name: "shop", exact: true }).click();
    await expect(page).toHaveURL(new RegExp(`${PAGES.project}$`));
    await page.goBack();
    await expect(rows).toHaveCount(30);
    await expect(search).toHaveValue("many-");
  } finally {
    platform.change("projects", undefined, "shop", { status: { ledger: null } });
  }
});
