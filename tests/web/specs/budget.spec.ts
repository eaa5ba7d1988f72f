import type { Page } from "@playwright/test";
import { words } from "../words";
import { expect, test } from "./fixtures";
import { PAGES } from "./routes";

/** Fills the form of a new namespace. */
async function ask(page: Page, name: string, cpu: string): Promise<void> {
  await page.getByLabel(words("form.name"), { exact: true }).fill(name);
  await page.getByLabel(words("form.amount.of", { resource: "requests.cpu" })).fill(cpu);
  await page.getByLabel(words("form.amount.of", { resource: "requests.memory" })).fill("128Mi");
  await page.getByLabel(words("form.amount.of", { resource: "pods" })).fill("1");
}

test("what is too much is refused while one types, with the level that refuses and what would fit", async ({ console }) => {
  const page = await console.as("bob", PAGES.newNamespace);
  await ask(page, `much-${Date.now() % 100_000}`, "90");
  await expect(page.getByText(words("form.refused"))).toBeVisible();
  await expect(page.getByText(words("refusal.level.project", { name: "shop" }))).toBeVisible();
  await expect(page.getByText("the largest that fits is").first()).toBeVisible();
  await console.isAccessible(page);
  await page.screenshot({ path: "output/pages/refusal.png", fullPage: true });
});

test("what fits is said to fit, is made, and is there to be used", async ({ console }) => {
  const page = await console.as("bob", PAGES.newNamespace);
  const name = `fits-${Date.now() % 100_000}`;
  await ask(page, name, "100m");
  await expect(page.getByText(words("form.fits"))).toBeVisible();
  await page.getByRole("button", { name: words("form.create") }).click();
  await expect(page).toHaveURL(/namespaces/);
  await expect(page.getByText(name).first()).toBeVisible();
});

test("who only looks is refused in the API's own words", async ({ console }) => {
  const page = await console.as("dave", PAGES.newNamespace);
  await ask(page, "mine", "100m");
  await expect(page.getByText(/this needs the role edit in project/)).toBeVisible();
});
