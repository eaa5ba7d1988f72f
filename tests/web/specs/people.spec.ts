import type { Page } from "@playwright/test";
import { words } from "../words";
import { expect, test } from "./fixtures";
import { PAGES } from "./routes";

const last = (page: Page) => page.getByRole("group").last();

async function add(page: Page, name: string, role: string): Promise<void> {
  await page.getByRole("button", { name: words("people.add") }).click();
  await last(page).getByLabel(words("column.name")).fill(name);
  await last(page).getByLabel(words("column.role")).selectOption(role);
}

test("an administrator gives a role, changes it, and takes it away again", async ({ console, platform }) => {
  const page = await console.as("alice", PAGES.people);
  const who = `erin-${Date.now() % 100_000}`;
  await expect(page.getByText(words("people.unchanged"))).toBeVisible();
  await add(page, who, "edit");
  await expect(page.getByText(words("people.given", { who, role: "edit" }))).toBeVisible();
  await expect(page.getByText(words("people.fits"))).toBeVisible();
  await page.getByRole("button", { name: words("form.save") }).click();
  await expect(page.getByRole("cell", { name: who })).toBeVisible();

  await page.goto(platform.origin + PAGES.people);
  await page.getByRole("group", { name: who }).getByLabel(words("column.role")).selectOption("admin");
  await expect(page.getByText(words("people.changed", { who, role: "admin" }))).toBeVisible();
  await expect(page.getByText(words("people.fits"))).toBeVisible();
  await page.getByRole("button", { name: words("form.save") }).click();
  await expect(page.getByRole("row", { name: who }).getByText("admin", { exact: true })).toBeVisible();

  await page.goto(platform.origin + PAGES.people);
  await page.getByRole("button", { name: words("people.remove", { who }) }).click();
  await expect(page.getByText(words("people.taken", { who, role: "admin" }))).toBeVisible();
  await expect(page.getByText(words("people.stays"))).toBeVisible();
  await expect(page.getByText(words("people.fits"))).toBeVisible();
  await console.isWellMade(page, "people-changed");
  await page.getByRole("button", { name: words("form.save") }).click();
  await expect(page).toHaveURL(/projects\/shop$/);
  await expect(page.getByRole("heading", { name: words("project.people") })).toBeVisible();
  await expect(page.getByRole("cell", { name: who })).toHaveCount(0);
});

test("somebody without a name is no change yet", async ({ console }) => {
  const page = await console.as("alice", PAGES.people);
  await page.getByRole("button", { name: words("people.add") }).click();
  await expect(page.getByText(words("people.incomplete"))).toBeVisible();
  await expect(page.getByRole("region", { name: words("people.changes") })).toHaveCount(0);
});

test("who may not change people is refused before anything is sent, in the API's own words", async ({ console }) => {
  const page = await console.as("bob", PAGES.people);
  await add(page, "mallory", "admin");
  await expect(page.getByText(words("form.refused"))).toBeVisible();
  await expect(page.getByText(/this needs the role admin in project "shop"/).first()).toBeVisible();
});

test("a platform's administrators are reached and left where its tenant has no object", { tag: "@simulated" }, async ({ console }) => {
  const page = await console.as("alice", PAGES.tenants);
  await page.route(/\/v1\/tenants\?/, async (route) => {
    const list = (await (await route.fetch()).json()) as object;
    await route.fulfill({ json: { ...list, items: [] } });
  });
  await page.reload();
  await expect(page.getByText(words("tenants.none"))).toBeVisible();
  await page.getByText(new RegExp(`^${words("more.title")}`)).click();
  await page.getByRole("link", { name: "acme-platform" }).click();
  await page.getByRole("link", { name: words("people.edit") }).click();
  await page.getByRole("link", { name: words("form.cancel") }).click();
  await expect(page).toHaveURL(/review\/platforms\/acme-platform$/);
  await expect(page.getByRole("heading", { level: 1, name: words("review.title", { name: "acme-platform" }) })).toBeVisible();
});

test("a tenant's administrators name another one by their platform, and operators by the Tenant", async ({ console, platform }) => {
  const page = await console.as("alice", PAGES.tenant);
  await page.getByRole("link", { name: words("people.edit") }).click();
  await page.getByRole("button", { name: words("people.add") }).click();
  await last(page).getByLabel(words("column.name")).fill("erin");
  await expect(page.getByText(words("people.fits"))).toBeVisible();
  await page.getByRole("button", { name: words("form.save") }).click();
  await expect(page).toHaveURL(/tenants\/acme$/);
  await expect(page.getByRole("listitem").filter({ hasText: new RegExp(`^${words("kind.User")} erin$`) })).toBeVisible();

  await page.goto(`${platform.origin}/console/people/tenants/acme`);
  await page.getByRole("button", { name: words("people.remove", { who: "alice" }) }).click();
  await expect(page.getByText(/this is for operators/).first()).toBeVisible();
});

test("the white space around a name that is typed is no part of it", async ({ console }) => {
  const page = await console.as("alice", PAGES.people);
  await add(page, " judy ", "view");
  await expect(page.getByText(words("people.given", { who: "judy", role: "view" }), { exact: true })).toBeVisible();
  await expect(page.getByText(words("people.fits"))).toBeVisible();
  await expect(page.getByRole("region", { name: words("form.yaml") }).locator("pre")).toContainText("name: judy");
});

test("a service account says where it is", async ({ console }) => {
  const page = await console.as("alice", PAGES.people);
  await page.getByRole("button", { name: words("people.add") }).click();
  await last(page).getByLabel(words("column.kind")).selectOption("ServiceAccount");
  await last(page).getByRole("textbox", { name: words("column.name"), exact: true }).fill("argocd");
  await expect(page.getByText(words("people.incomplete"))).toBeVisible();
  await last(page).getByLabel(words("people.namespace")).fill("gitops");
  await expect(page.getByText(words("people.given", { who: "gitops:argocd", role: "view" }))).toBeVisible();
  await expect(page.getByText(words("people.fits"))).toBeVisible();
});
