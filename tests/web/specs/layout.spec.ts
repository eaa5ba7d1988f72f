/** What is cut, squeezed or wider than its page. */

import type { Locator, Page } from "@playwright/test";
import { words } from "../words";
import { expect, test } from "./fixtures";
import { OPERATORS, PAGES, type PageName } from "./routes";

/** Where a form and what it sends stand beside each other, with the least room. */
const BESIDE = { width: 1024, height: 768 };
const REFLOWED = { width: 320, height: 640 };
const LONG = "/console/change/projects/platform-engineering-shared-continuous-integration-and-delivery";

const widthOf = async (element: Locator) => (await element.boundingBox())?.width ?? 0;
const heightOf = async (element: Locator) => (await element.boundingBox())?.height ?? 0;

async function isWithin(page: Page, what: string): Promise<void> {
  const beyond = () => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  await expect.poll(beyond, { message: `${what} scrolls sideways` }).toBeLessThanOrEqual(0);
}

for (const name of Object.keys(PAGES) as PageName[]) {
  test(`${name} is read without scrolling sideways at ${REFLOWED.width} pixels`, async ({ console }) => {
    const page = await console.as(OPERATORS.has(name) ? "oscar" : "alice", PAGES[name]);
    await expect(page.getByRole("heading").first()).toBeVisible();
    await expect(page.getByText(words("state.loading"))).toHaveCount(0);
    await page.setViewportSize(REFLOWED);
    await isWithin(page, name);
  });
}

test("a long name without a space stays in its card", { tag: "@simulated" }, async ({ console, platform }) => {
  const long = "long".repeat(40);
  platform.change("projects", undefined, "frozen", { spec: { displayName: long } });
  try {
    const page = await console.as("alice", PAGES.tenant);
    await expect(page.getByRole("link", { name: long })).toBeVisible();
    for (const size of [BESIDE, REFLOWED]) {
      await page.setViewportSize(size);
      await isWithin(page, `the tenant at ${size.width}`);
    }
  } finally {
    platform.change("projects", undefined, "frozen", { spec: { displayName: null } });
  }
});

test("whoever is taken out has a button, not a box, and a service account is read whole", async ({ console, platform }) => {
  const page = await console.as("alice", PAGES.tenantPeople);
  await page.setViewportSize(BESIDE);
  expect(await widthOf(page.getByRole("button", { name: words("people.remove", { who: "alice" }) }))).toBeLessThan(60);
  await page.goto(platform.origin + PAGES.people);
  await page.getByRole("button", { name: words("people.add") }).click();
  const added = page.getByRole("group").last();
  await added.getByLabel(words("column.kind")).selectOption("ServiceAccount");
  expect(await widthOf(added.getByLabel(words("column.kind")))).toBeGreaterThan(150);
  const line = await heightOf(added.getByText(words("column.kind"), { exact: true }));
  for (const key of ["people.namespace", "people.cluster"]) expect(await heightOf(added.getByText(words(key), { exact: true }))).toBeLessThan(line * 1.5);
  await console.isAccessible(page);
});

test("names of resources are read whole in a form", { tag: "@simulated" }, async ({ console }) => {
  const page = await console.as("alice", LONG);
  await page.setViewportSize(BESIDE);
  const resources = page.getByLabel(words("form.resource"), { exact: true });
  await expect(resources.first()).toBeVisible();
  expect(await resources.evaluateAll((all) => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => (one as HTMLInputElement).value))).toEqual([]);
  expect(await resources.evaluateAll((all) => all.map((one) => (one as HTMLInputElement).value))).toContain("requests.example.com/accelerator");
});
