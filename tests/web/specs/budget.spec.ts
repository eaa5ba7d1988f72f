import type { Page } from "@playwright/test";
import { words } from "../words";
import { expect, test } from "./fixtures";
import { PAGES } from "./routes";

const AMOUNTS = { "requests.memory": "128Mi", pods: "1" };

/** Fills the form of a new namespace; amounts that the form does not offer by itself are added. */
async function ask(page: Page, name: string, cpu: string): Promise<void> {
  await page.getByRole("textbox", { name: new RegExp(`^${words("form.name")}`) }).first().fill(name);
  for (const [resource, amount] of Object.entries({ "requests.cpu": cpu, ...AMOUNTS })) {
    const field = page.getByLabel(words("form.amount.of", { resource }), { exact: true });
    if ((await field.count()) === 0) {
      await page.getByRole("button", { name: words("form.amounts.add") }).click();
      const added = page.getByLabel(words("form.resource"), { exact: true }).last();
      await added.fill(resource);
      await added.press("Tab");
    }
    await field.fill(amount);
  }
}

test("what is too much is refused while one types, with the level that refuses and what would fit", async ({ console }) => {
  const page = await console.as("bob", PAGES.newNamespace);
  await ask(page, `much-${Date.now() % 100_000}`, "90");
  await expect(page.getByText(words("form.refused"))).toBeVisible();
  await expect(page.getByText(words("refusal.level.project", { name: "shop" }))).toBeVisible();
  await expect(page.getByText(/^requests\.cpu: .*90.* 10 /)).toBeVisible();
  await console.isWellMade(page, "refusal");
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
