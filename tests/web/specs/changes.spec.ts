/** Two who write the same, forms that know what is left, and what is asked before something goes. */

import type { Page } from "@playwright/test";
import { words } from "../words";
import { expect, test } from "./fixtures";
import { PAGES } from "./routes";

const ACCESS = [{ kind: "Group", name: "shop-developers", role: "edit" }, { kind: "User", name: "dave", role: "view" }];
const CPU = words("form.amount.of", { resource: "requests.cpu" });

/** The project itself in the API, without a question. */
const SHOP = /\/apis\/.*\/projects\/shop$/;

/** The beginning of a text, before its first place. */
const begins = (key: string) => words(key).split("{")[0] ?? "";

/** Somebody writes what no form of ours touches, as the controller does with statuses. */
const note = () => ({ metadata: { annotations: { "example.org/note": `${Date.now()}` } } });

async function addLate(page: Page): Promise<void> {
  await page.getByRole("button", { name: words("people.add") }).click();
  await page.getByRole("group").last().getByLabel(words("column.name")).fill("late");
}

test("a budget that was read a while ago is changed all the same when only its status has moved", async ({ console, platform }) => {
  const page = await console.as("alice", PAGES.change);
  const local = page.getByRole("group", { name: "local", exact: true });
  await expect(page.getByText(words("people.unchanged"))).toBeVisible();
  await expect(page.getByRole("button", { name: words("form.save") })).toBeDisabled();
  platform.change("projects", undefined, "shop", note());
  const lost = page.waitForResponse((response) => response.request().method() === "PATCH" && response.status() === 409);
  await local.getByLabel(CPU, { exact: true }).fill("10.0");
  await lost;
  await expect(page.getByText(words("form.fits"))).toBeVisible();
  await expect(page.getByText(/has been modified/)).toHaveCount(0);
});

test("an emptied amount takes no limit away, and of a row that is taken out it is said", async ({ console }) => {
  const page = await console.as("alice", PAGES.change);
  const local = page.getByRole("group", { name: "local", exact: true });
  const cpu = local.getByLabel(CPU, { exact: true });
  await cpu.fill("");
  await expect(cpu).toHaveAccessibleDescription(words("form.amount.emptied"));
  await expect(page.getByText(words("form.incomplete.amount"))).toBeVisible();
  await expect(page.getByRole("button", { name: words("form.save") })).toBeDisabled();
  await local.getByRole("button", { name: words("form.amount.remove", { resource: "requests.cpu" }), exact: true }).click();
  await expect(page.getByText(words("form.limits.none", { limits: "local · requests.cpu" }))).toBeVisible();
});

test("whoever was slower is told what the other one has changed, and goes on with what he has typed", async ({ console, platform }) => {
  const page = await console.as("alice", PAGES.people);
  await expect(page.getByText(words("people.unchanged"))).toBeVisible();
  try {
    platform.change("projects", undefined, "shop", { spec: { access: [...ACCESS, { kind: "User", name: "quick", role: "view" }] } });
    await addLate(page);
    const told = page.getByRole("alert", { name: words("meanwhile.title") });
    await expect(told.getByText(words("people.given", { who: "quick", role: "view" }))).toBeVisible();
    await console.isWellMade(page, "changed-meanwhile");
    await told.getByRole("button", { name: words("meanwhile.take") }).click();
    await expect(page.getByText(words("people.fits"))).toBeVisible();
    for (const who of ["quick", "late"]) await expect(page.getByRole("group", { name: who })).toBeVisible();
    await expect(page.getByText(words("people.given", { who: "quick", role: "view" }))).toHaveCount(0);
  } finally {
    platform.change("projects", undefined, "shop", { spec: { access: ACCESS } });
  }
});

test("a form says beside each amount what the project above has left", async ({ console }) => {
  const page = await console.as("bob", PAGES.newNamespace);
  await expect(page.getByText(/ left in shop$/).first()).toBeVisible();
  await expect(page.getByLabel(CPU, { exact: true })).toBeVisible();
});

test("an operator may change a tenant", async ({ console }) => {
  const page = await console.as("oscar", PAGES.tenant);
  await page.getByRole("link", { name: words("project.change"), exact: true }).click();
  await expect(page).toHaveURL(/change\/tenants\/acme$/);
  await page.getByLabel(words("form.display")).fill(`Acme Corporation ${Date.now()}`);
  await expect(page.getByText(words("form.fits"))).toBeVisible();
});

test("who is no operator finds no way to a tenant's ceilings", async ({ console }) => {
  const page = await console.as("alice", PAGES.tenant);
  await expect(page.getByRole("heading", { name: words("tenant.administrators") })).toBeVisible();
  await expect(page.getByRole("link", { name: words("project.change"), exact: true })).toHaveCount(0);
});

test("a project goes only after its name is typed, and one knows what goes with it", async ({ console }) => {
  const page = await console.as("alice", PAGES.project);
  await page.getByRole("button", { name: words("act.delete"), exact: true }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByText(/^With it go [1-9]\d* projects? below it and [1-9]\d* namespaces?,/)).toBeVisible();
  const sure = dialog.getByRole("button", { name: words("act.delete"), exact: true });
  await expect(sure).toBeDisabled();
  await dialog.getByLabel(words("act.typed", { name: "shop" })).fill("shop");
  await expect(sure).toBeEnabled();
  await console.isWellMade(page, "dialog-delete-project");
  await page.keyboard.press("Escape");
  await expect(dialog).toHaveCount(0);
});

test("all that lies in a project has a way to it", async ({ console }) => {
  const page = await console.as("alice", PAGES.project);
  const inside = page.getByRole("region", { name: words("project.members") }).first();
  await expect(inside.getByRole("link", { name: "local-web", exact: true })).toBeVisible();
  await expect(inside.getByRole("link", { name: "shop-eu", exact: true })).toBeVisible();
});

test("a namespace that is being deleted offers neither a certificate nor a change", async ({ console }) => {
  const page = await console.as("alice", PAGES.leaving);
  await expect(page.getByText(begins("namespace.leaving"))).toBeVisible();
  await expect(page.getByRole("button", { name: words("namespace.kubeconfig") })).toHaveCount(0);
  for (const key of ["namespace.edit", "act.move"]) await expect(page.getByRole("link", { name: words(key), exact: true })).toHaveCount(0);
});

test("a project that is being deleted says so, in the tree, too, and takes nothing new", { tag: "@simulated" }, async ({ console, platform }) => {
  const why = "1 namespace remains";
  const conditions = [{ type: "Terminating", status: "True", reason: "ContentRemains", message: why, lastTransitionTime: "2026-03-05T21:40:00Z" }];
  platform.change("projects", undefined, "globex-web", { metadata: { deletionTimestamp: "2026-03-05T21:40:00Z" }, status: { phase: "Terminating", conditions } });
  try {
    const page = await console.as("carol");
    const row = console.row(page, "globex-web");
    await expect(row.getByText(words("release.leaving"), { exact: true })).toBeVisible();
    await row.getByRole("link").click();
    await expect(page.getByText(begins("project.leaving"))).toContainText(why);
    await expect(page.getByText(`globex-web · globex · ${words("phase.Terminating")}`)).toBeVisible();
    const acts = ["project.create.namespace", "project.create.below", "project.change", "act.move", "people.edit"];
    for (const key of acts) await expect(page.getByRole("link", { name: words(key), exact: true })).toHaveCount(0);
    await expect(page.getByRole("button", { name: words("act.delete"), exact: true })).toHaveCount(0);
    await console.isAccessible(page);
  } finally {
    const ready = [{ type: "Ready", status: "True", reason: "Ready", message: "", lastTransitionTime: "2026-03-02T08:15:00Z" }];
    platform.change("projects", undefined, "globex-web", { metadata: { deletionTimestamp: null }, status: { phase: "Active", conditions: ready } });
  }
});

test("a review says who wrote which fields and when it was read, and leads to what has no page", async ({ console, platform }) => {
  const page = await console.as("alice", PAGES.review);
  const managers = page.getByRole("region", { name: words("review.managers") });
  await expect(managers.getByRole("listitem").first()).toBeVisible();
  // Many fields of one manager open.
  for (const many of await managers.locator("summary").all()) await many.click();
  await expect(managers.getByText(/spec\./).first()).toBeVisible();
  await expect(page.getByText(begins("review.read"))).toBeVisible();
  const fresh = `Shop ${Date.now()}`;
  platform.change("projects", undefined, "shop", { spec: { displayName: fresh } });
  await page.getByRole("button", { name: words("review.again") }).click();
  await expect(page.getByRole("region", { name: words("review.yaml") }).getByText(fresh)).toBeVisible();
  await page.goto(platform.origin + PAGES.tenant);
  await page.getByText(new RegExp(`^${words("more.title")}`)).click();
  await page.getByRole("region", { name: words("more.title") }).getByRole("link").first().click();
  await expect(page).toHaveURL(/review\/(platforms|namespacetemplates)\/[^/]+$/);
});

test("findings name a cluster that does not answer", async ({ console }) => {
  const page = await console.as("oscar", PAGES.findings);
  const wrong = page.getByRole("region", { name: words("findings.conditions") });
  const lost = wrong.getByRole("listitem").filter({ has: page.getByRole("link", { name: "member-2", exact: true }) });
  const said = ["False", "Unknown"].map((status) => words(`condition.Reachable.${status}`));
  await expect(lost.getByText(new RegExp(`^(${said.join("|")})$`)).first()).toBeVisible();
});

test("findings offer to unlock a project to operators alone", { tag: "@simulated" }, async ({ console }) => {
  const page = await console.as("alice", PAGES.findings);
  const section = page.getByRole("region", { name: "frozen", exact: true });
  await expect(section.getByText(words("project.locked"))).toBeVisible();
  await expect(section.getByRole("button")).toHaveCount(0);
});

test("a question of the findings outlives what changes meanwhile", { tag: "@simulated" }, async ({ console, platform }) => {
  const page = await console.as("oscar", PAGES.findings);
  const section = page.getByRole("region", { name: "frozen", exact: true });
  const row = page.getByRole("row", { name: /member-1\/old-etl/ });
  await row.getByText(words("findings.writeoff"), { exact: true }).click();
  await section.getByRole("button", { name: words("act.unlock"), exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel(words("act.reason")).fill("paid");
  const why = `since ${Date.now()}`;
  platform.change("projects", undefined, "frozen", { metadata: { annotations: { "business.tkestack.io/lock-reason": why } } });
  platform.change("projects", undefined, "shop", note());
  await expect(page.getByText(why)).toBeVisible();
  await expect(dialog.getByLabel(words("act.reason"))).toHaveValue("paid");
  await page.keyboard.press("Escape");
  await expect(dialog).toHaveCount(0);
  await expect(row.getByText(words("findings.writeoff.danger"))).toBeVisible();
});

test("a question does not turn into its opposite under whoever reads it", { tag: "@simulated" }, async ({ console, platform }) => {
  const page = await console.as("oscar", PAGES.clusters);
  // By its label: what is behind a question is hidden from roles.
  const card = page.locator("section[aria-label='local']");
  try {
    await card.getByRole("button", { name: words("cluster.cordon"), exact: true }).click();
    const dialog = page.getByRole("dialog");
    await expect(dialog.getByText(words("cluster.cordon.text"))).toBeVisible();
    platform.change("memberclusters", undefined, "local", { spec: { cordoned: true } });
    await expect(card.getByText(words("cluster.cordoned"))).toBeVisible();
    await expect(dialog.getByText(words("cluster.cordon.text"))).toBeVisible();
    await dialog.getByRole("button", { name: words("act.confirm") }).click();
    await expect(dialog).toHaveCount(0);
    await expect(card.getByText(words("cluster.cordoned"))).toBeVisible();
    await expect(card.getByRole("button", { name: words("cluster.uncordon"), exact: true })).toBeVisible();
  } finally {
    platform.change("memberclusters", undefined, "local", { spec: { cordoned: false } });
  }
});

test("a cluster that is being deleted says so, and what it waits for", { tag: "@simulated" }, async ({ console, platform }) => {
  const when = { lastTransitionTime: "2026-03-05T21:40:00Z" };
  const good = (type: string, reason: string) => ({ type, status: "True", reason, message: "", ...when });
  const healthy = [good("Reachable", "Answers"), good("Registered", "Registered"), good("Bounded", "Bounded")];
  const why = "5 namespaces are there";
  const page = await console.as("oscar", PAGES.clusters);
  const card = page.getByRole("region", { name: "local", exact: true });
  try {
    platform.change("memberclusters", undefined, "local", { status: { conditions: healthy } });
    await expect(card.getByRole("button", { name: words("cluster.cordon"), exact: true })).toBeVisible();
    await expect(card.getByText(words("condition.Terminating.True"))).toHaveCount(0);
    const leaving = { type: "Terminating", status: "True", reason: "InUse", message: why, ...when };
    platform.change("memberclusters", undefined, "local", { metadata: { deletionTimestamp: when.lastTransitionTime }, status: { conditions: [...healthy, leaving] } });
    await expect(card.getByText(words("condition.Terminating.True"))).toBeVisible();
    await expect(card.getByText(why)).toBeVisible();
    await expect(card.getByText(words("condition.Bounded.True"))).toHaveCount(0);
  } finally {
    platform.change("memberclusters", undefined, "local", { metadata: { deletionTimestamp: null }, status: { conditions: healthy } });
  }
});

test("an act at the database is copied as it is run", { tag: "@simulated" }, async ({ console }) => {
  const page = await console.as("oscar", PAGES.findings);
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const row = page.getByRole("row", { name: /member-1\/old-etl/ });
  await expect(row.getByText(words("todo.orphaned"))).toBeVisible();
  await row.getByText(words("findings.writeoff"), { exact: true }).click();
  await expect(row.getByText(words("findings.writeoff.danger"))).toBeVisible();
  const line = "kubectl -n tke-business exec deployment/business-api -- /business-api audit --write-off o-1";
  await row.getByRole("button", { name: words("copy.of", { what: line }) }).click();
  await expect(row.getByText(words("copy.done"), { exact: true })).toBeVisible();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(line);
});

test("whoever sees no clusters is not told that they agree", { tag: "@simulated" }, async ({ console }) => {
  const page = await console.as("carol", PAGES.findings);
  await expect(page.getByText(words("findings.none.own"))).toBeVisible();
  await expect(page.getByText(words("findings.none"))).toHaveCount(0);
});

test("who goes elsewhere while a write runs is not brought back", async ({ console, page }) => {
  let answer = (): void => undefined;
  const answered = new Promise<void>((resolve) => (answer = resolve));
  // Nothing is written.
  await page.route(SHOP, async (route) => {
    if (route.request().method() !== "PATCH") return route.continue();
    await answered;
    return route.fulfill({ json: {} });
  });
  await console.as("alice", PAGES.change);
  await page.getByLabel(words("form.display")).fill("Shop of nobody");
  await expect(page.getByText(words("form.fits"))).toBeVisible();
  const written = page.waitForResponse((response) => response.request().method() === "PATCH" && SHOP.test(response.url()));
  await page.getByRole("button", { name: words("form.save") }).click();
  await page.getByRole("link", { name: words("nav.projects"), exact: true }).click();
  const projects = page.getByRole("heading", { name: words("projects.title") });
  await expect(projects).toBeVisible();
  answer();
  await (await written).finished();
  // The page has handled the answer when it has drawn twice.
  await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
  await expect(projects).toBeVisible();
});

test("a review that cannot be read again stays, and is read when it can be", async ({ console, page }) => {
  await console.as("alice", PAGES.review);
  const again = page.getByRole("button", { name: words("review.again") });
  await expect(again).toBeVisible();
  await page.route(SHOP, (route) => route.abort());
  await again.click();
  await expect(page.getByRole("alert")).toHaveText(words("state.unanswered"));
  await expect(page.getByRole("region", { name: words("review.yaml") })).toBeVisible();
  await console.isAccessible(page);
  await page.unroute(SHOP);
  await again.click();
  await expect(page.getByRole("alert")).toHaveCount(0);
});

test("a form whose object cannot be read asks for it again", async ({ console, page }) => {
  await page.route(SHOP, (route) => route.abort());
  await console.as("alice", PAGES.people);
  await expect(page.getByRole("alert")).toContainText(words("state.unanswered"));
  await page.unroute(SHOP);
  await page.getByRole("button", { name: words("state.again") }).click();
  await expect(page.getByText(words("people.unchanged"))).toBeVisible();
});

test("from one form to another the history brings that one's object", async ({ console }) => {
  const page = await console.as("alice", PAGES.change);
  const title = (name: string) => page.getByRole("heading", { level: 1, name: words("form.change", { name }), exact: true });
  await expect(title("shop")).toBeVisible();
  await page.getByRole("link", { name: words("form.cancel"), exact: true }).click();
  await page.getByRole("region", { name: words("project.members") }).first().getByRole("link", { name: "shop-eu", exact: true }).click();
  await expect(page).toHaveURL(/projects\/shop-eu$/);
  await page.getByRole("link", { name: words("project.change"), exact: true }).click();
  await expect(title("shop-eu")).toBeVisible();
  await page.evaluate(() => history.go(-3));
  await expect(title("shop")).toBeVisible();
  await expect(page.getByText(words("people.unchanged"))).toBeVisible();
});
