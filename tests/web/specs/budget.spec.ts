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
  // To scale: most of it lies beyond the limit.
  const bar = page.getByRole("img", { name: /^requests\.cpu: .*90/ });
  const part = (of: string) => bar.locator(of).evaluate((element) => element.getBoundingClientRect().width / (element.parentElement?.getBoundingClientRect().width ?? 1));
  expect(await part(".over")).toBeGreaterThan(0.85);
  expect(await part(".given")).toBeLessThan(0.12);
  await expect(page.getByText(words("refusal.over"))).toBeVisible();
  await console.isWellMade(page, "refusal");
});

test("what is no amount is said to be none, in words, too", async ({ console }) => {
  const page = await console.as("bob", PAGES.newNamespace);
  const field = page.getByLabel(words("form.amount.of", { resource: "requests.cpu" }), { exact: true });
  await field.fill("lots");
  await expect(field).toHaveAccessibleDescription(words("form.amount.invalid"));
  await field.fill("100m");
  await expect(page.getByText(words("form.amount.invalid"))).toHaveCount(0);
});

test("amounts are asked for when it is known what is limited, and the parent that is sent is shown before", async ({ console, page }) => {
  let read = () => {};
  const isRead = new Promise<void>((resolve) => (read = resolve));
  await page.route(/\/projects\?limit=/, async (route) => {
    await isRead;
    await route.fallback();
  });
  await console.as("bob", PAGES.newNamespace);
  const amount = page.getByLabel(words("form.amount.of", { resource: "requests.cpu" }), { exact: true });
  await expect(page.getByRole("combobox", { name: new RegExp(`^${words("form.parent")}`) })).toHaveValue("shop");
  await expect(amount).toHaveCount(0);
  read();
  await expect(amount).toBeVisible();
  await page.unroute(/\/projects\?limit=/);
});

test("what would fit is exact, and following it is not refused again", { tag: "@simulated" }, async ({ console, platform }) => {
  const before = { status: { clusters: { local: { used: { "requests.cpu": "8.5" } } } } };
  platform.change("projects", undefined, "shop", { status: { clusters: { local: { used: { "requests.cpu": "8766m" } } } } });
  try {
    const page = await console.as("bob", PAGES.newNamespace);
    await expect(page.getByText(words("form.left", { amount: "1234m", project: "shop" }))).toBeVisible();
    await ask(page, "exact", "1235m");
    await expect(page.getByText(/^requests\.cpu: asked 1235m, .*; at most 1234m would fit$/)).toBeVisible();
    await ask(page, "exact", "1234m");
    await expect(page.getByText(words("form.fits"))).toBeVisible();
  } finally {
    platform.change("projects", undefined, "shop", before);
  }
});

test("a namespace is named after its cluster, or by the server where that would be too long", async ({ console }) => {
  const page = await console.as("bob", PAGES.newNamespace);
  const sent = page.getByRole("region", { name: words("form.yaml") });
  await ask(page, "web", "100m");
  await expect(sent).toContainText("name: local-web");
  await ask(page, "n".repeat(60), "100m");
  await expect(sent).toContainText(`generateName: ${"n".repeat(57)}-`);
  await expect(page.getByText(words("form.fits"))).toBeVisible();
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

test("what the server warns of stands beside what it takes, and beside a kubeconfig", async ({ console, page, platform }) => {
  const warning = { Warning: '299 - "the budget of shop is near its end"' };
  const told = page.getByText("the budget of shop is near its end");
  await page.route(/dryRun=All$/, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, headers: { ...response.headers(), ...warning } });
  });
  await console.as("bob", PAGES.newNamespace);
  await ask(page, `warned-${Date.now() % 100_000}`, "100m");
  await expect(page.getByText(words("form.fits"))).toBeVisible();
  await expect(told).toBeVisible();
  await expect(told).toHaveAttribute("lang", "en");
  await page.route(/\/certificate\?/, (route) => route.fulfill({ body: "kind: Config\n", headers: warning }));
  await page.goto(platform.origin + PAGES.namespace);
  await page.getByRole("button", { name: words("namespace.kubeconfig") }).click();
  await expect(told).toBeVisible();
  await console.isAccessible(page);
});

test("who waits for a kubeconfig is told so, and is given one for two clicks", async ({ console }) => {
  const page = await console.as("bob", PAGES.namespace);
  let asked = 0;
  let answer = (): void => undefined;
  const answered = new Promise<void>((resolve) => (answer = resolve));
  await page.route(/\/certificate\?/, async (route) => {
    asked += 1;
    await answered;
    await route.fulfill({ body: "kind: Config\n" });
  });
  const button = page.getByRole("button", { name: words("namespace.kubeconfig"), exact: true });
  await button.click();
  await expect(page.getByText(words("namespace.kubeconfig.waits"))).toBeVisible();
  await button.click();
  answer();
  await expect(page.getByText(words("namespace.kubeconfig.waits"))).toHaveCount(0);
  expect(asked).toBe(1);
});

test("who only looks is refused in the API's own words", async ({ console }) => {
  const page = await console.as("dave", PAGES.newNamespace);
  await ask(page, "mine", "100m");
  await expect(page.getByText(/this needs the role edit in project/)).toBeVisible();
});

test("a resource that stands there twice is told, and one that is added stays", async ({ console }) => {
  const page = await console.as("bob", PAGES.newNamespace);
  await expect(page.getByText(/ left in shop$/).first()).toBeVisible();
  await page.getByRole("button", { name: words("form.amounts.add") }).click();
  const added = page.getByLabel(words("form.resource"), { exact: true }).last();
  await added.fill("requests.cpu");
  await expect(added).toHaveAccessibleDescription(words("form.resource.twice"));
  await added.fill("requests.storage");
  await expect(page.getByText(words("form.resource.twice"))).toHaveCount(0);
  await expect(page.getByLabel(words("form.amount.of", { resource: "requests.storage" }), { exact: true })).toBeVisible();
});

test("a root project is told what the ceilings of its tenant leave, when it is made and when it is changed", { tag: "@simulated" }, async ({ console, platform }) => {
  const page = await console.as("alice", PAGES.newProject);
  const tenant = page.getByRole("combobox", { name: words("form.tenant"), exact: true });
  await expect(tenant).toHaveValue("acme");
  await expect(page.getByLabel(words("form.amount.of", { resource: "pods" }), { exact: true })).toBeVisible();
  await expect(page.getByText(words("form.left", { amount: "2", project: "acme" }), { exact: true })).toBeVisible();
  await page.goto(`${platform.origin}/console/change/projects/frozen`);
  await expect(page.getByText(words("form.most", { amount: "4", project: "acme" }), { exact: true })).toBeVisible();
});

test("an operator names the tenant of a root project, of those that are there and of others", { tag: "@simulated" }, async ({ console }) => {
  const page = await console.as("oscar", PAGES.newProject);
  // It is an operator's page once it is known who looks.
  await expect(page.getByRole("link", { name: words("nav.clusters"), exact: true })).toBeVisible();
  const tenant = page.getByRole("combobox", { name: words("form.tenant"), exact: true });
  await tenant.fill("globex");
  await expect(page.getByText(words("form.left", { amount: "2", project: "globex" }), { exact: true })).toBeVisible();
  await tenant.fill("initech");
  await page.getByRole("textbox", { name: new RegExp(`^${words("form.name")}`) }).first().fill("initech-web");
  await expect(page.getByText("tenantID: initech")).toBeVisible();
});

test("what nobody has judged is not called refused, and is asked again", async ({ console, page }) => {
  const questions = /dryRun=All$/;
  await page.route(questions, (route) => route.abort());
  await console.as("bob", PAGES.newNamespace);
  await ask(page, `away-${Date.now() % 100_000}`, "100m");
  const told = page.getByRole("alert", { name: words("state.error") });
  await expect(told.getByText(words("state.unanswered"))).toBeVisible();
  await expect(page.getByText(words("form.refused"))).toHaveCount(0);
  await expect(page.getByText(words("form.unknown"))).toHaveCount(0);
  await page.unroute(questions);
  await expect(page.getByText(words("form.fits"))).toBeVisible({ timeout: 90_000 });
  await page.route(/\/namespaces$/, (route) => (route.request().method() === "POST" ? route.abort() : route.continue()));
  await page.getByRole("button", { name: words("form.create") }).click();
  await expect(told.getByText(words("form.unknown"))).toBeVisible();
});
