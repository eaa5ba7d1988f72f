import { words } from "../words";
import { expect, test } from "./fixtures";

/** A session as the server tells it. */
const session = () => {
  const end = new Date(Date.now() + 3_600_000).toISOString();
  return { username: "alice", groups: [], issuer: "local", expires: end, ends: end };
};
/** The same of one whose token has ended. */
const ENDED = { status: 401, json: { kind: "Status", code: 401, message: "Unauthorized" } };

test("two pages refresh one session once", { tag: "@simulated" }, async ({ console, context, page }) => {
  await console.logsIn("alice");
  let looked = 0;
  let refreshed = 0;
  // Both know of the old session before either refreshes it.
  let bothHaveCome = () => {};
  const both = new Promise<void>((resolve) => (bothHaveCome = () => resolve()));
  await context.route("**/console/session", async (route) => {
    looked += 1;
    if (looked === 2) bothHaveCome();
    if (looked <= 2) await both;
    return route.fulfill(refreshed === 0 ? ENDED : { json: session() });
  });
  await context.route("**/console/refresh", (route) => {
    refreshed += 1;
    return route.fulfill({ json: session() });
  });
  const other = await context.newPage();
  await Promise.all([page.reload(), other.goto(page.url())]);
  // Each looks once when it comes, once more when it has the lock, and again when it hears that the other one came.
  await expect.poll(() => looked).toBeGreaterThanOrEqual(4);
  for (const tab of [page, other]) await expect(tab.getByRole("heading", { name: words("projects.title") })).toBeVisible();
  expect(refreshed).toBe(1);
});

test("who logs out in one tab is nobody in the other at once, and who comes is there in both", async ({ console, context, page }) => {
  await console.logsIn("alice");
  const other = await context.newPage();
  await other.goto(page.url());
  await expect(other.getByRole("heading", { name: words("projects.title") })).toBeVisible();
  await page.getByRole("button", { name: words("account.menu", { name: "alice" }) }).click();
  await page.getByRole("menuitem", { name: words("account.logout") }).click();
  await expect(page.getByRole("heading", { name: words("login.title") })).toBeVisible();
  await expect(other.getByRole("heading", { name: words("login.title") })).toBeVisible();
  await console.logsIn("alice");
  await expect(other.getByRole("heading", { name: words("projects.title") })).toBeVisible();
});
