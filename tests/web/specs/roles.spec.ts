import { words } from "../words";
import { expect, test } from "./fixtures";
import { PAGES } from "./routes";

const SEES = [
  { name: "alice", sees: "shop", not: "globex-web" },
  { name: "bob", sees: "shop", not: "globex-web" },
  { name: "dave", sees: "shop", not: "globex-web" },
];

for (const { name, sees, not } of SEES) {
  test(`${name} logs in at the provider and sees what is his`, async ({ console }) => {
    const page = await console.logsIn(name);
    await expect(console.row(page, sees)).toBeVisible();
    await expect(console.row(page, not)).toHaveCount(0);
  });
}

test("carol sees nothing of another tenant, and a link to it says so", async ({ console, platform }) => {
  const page = await console.logsIn("carol");
  await expect(page.getByRole("heading", { name: words("projects.title") })).toBeVisible();
  await expect(console.row(page, "shop")).toHaveCount(0);
  await page.goto(platform.origin + PAGES.project);
  await expect(page.getByText(words("state.notfound"))).toBeVisible();
});

test("whoever sees a part of a tenant is told that what is used is of that part", async ({ console, platform }) => {
  const page = await console.logsIn("bob", PAGES.tenant);
  const told = page.getByText((words("tenant.part").split("{")[0] ?? "").trim());
  await expect(told).toBeVisible();
  await console.isAccessible(page);
  const whole = await console.logsIn("alice", PAGES.tenant, await console.besides());
  await expect(whole.getByRole("heading", { name: words("tenant.administrators") })).toBeVisible();
  await expect(whole.getByText((words("tenant.part").split("{")[0] ?? "").trim())).toHaveCount(0);
});

test("after logging out one stands before the login again", async ({ console }) => {
  const page = await console.logsIn("alice");
  await page.getByRole("button", { name: words("account.menu", { name: "alice" }) }).click();
  await page.getByRole("menuitem", { name: words("account.logout") }).click();
  await expect(page.getByRole("heading", { name: words("login.title") })).toBeVisible();
  expect(await page.evaluate(async () => (await fetch("/console/session")).status)).toBe(401);
});

test("a deep link leads through the login to its place", async ({ console, page, platform }) => {
  await console.logsIn("alice", PAGES.namespace);
  expect(new URL(page.url()).pathname).toBe(PAGES.namespace);
  expect(page.url().startsWith(platform.origin)).toBe(true);
});

test("who is an operator by RBAC in the cluster is one here", async ({ console }) => {
  const page = await console.logsIn("oscar");
  await expect(page.getByText(words("state.forbidden"))).toHaveCount(0);
  await expect(console.row(page, "shop")).toBeVisible();
  await expect(page.getByRole("link", { name: words("nav.clusters"), exact: true })).toBeVisible();
});
