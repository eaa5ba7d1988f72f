import { words } from "../words";
import { ask } from "./asking";
import { expect, test } from "./fixtures";
import { PAGES } from "./routes";

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
