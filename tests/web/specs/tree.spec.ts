import { words } from "../words";
import type { Platform } from "../platform";
import { expect, test } from "./fixtures";

/** Of the project shop: three in each of its clusters. */
const limits = ({ isReal }: Platform) => 3 * (isReal ? 3 : 2);

test("a project's row opens to each limit of each cluster, the fullest first", async ({ console, platform }) => {
  const page = await console.as("alice");
  const row = console.row(page, "shop");
  await expect(row.getByRole("img")).toHaveCount(1);
  await row.getByRole("button", { name: words("projects.limits.of", { count: String(limits(platform)), name: "shop" }) }).click();
  const bars = row.getByRole("img");
  await expect(bars).toHaveCount(1 + limits(platform));
  // On a real platform no pod runs, and other tests have made a small namespace beside.
  const [given, used] = platform.isReal ? ["8\\.[5-9]", "0"] : ["8\\.5", "4"];
  await expect(bars.nth(1)).toHaveAttribute("aria-label", new RegExp(`^requests\\.cpu on local: ${given} of 10 given, ${used} used$`));
  await expect(row.getByText(/^8[5-9] %!$/).first()).toBeVisible();
  await expect(console.row(page, "shop-eu").getByText("97 %!!")).toBeVisible();
});

test("a row says that its project is locked", { tag: "@simulated" }, async ({ console }) => {
  const page = await console.as("alice");
  await expect(console.row(page, "frozen").getByText(words("phase.Locked"), { exact: true })).toBeVisible();
  await expect(console.row(page, "shop").getByText(words("phase.Locked"), { exact: true })).toHaveCount(0);
});

test("a row is called by its project and how full it is, and not by its buttons", async ({ console }) => {
  const page = await console.as("alice");
  const row = console.row(page, "shop-eu");
  await expect(row).toHaveAccessibleName(new RegExp(`shop-eu.* 97 %!! ${words("share.urgent")}$`));
  await expect(row).not.toHaveAccessibleName(new RegExp(words("projects.limits.of", { count: "3", name: "shop-eu" })));
});

test("the tree is walked by arrows, which open and close it, too", async ({ console }) => {
  const page = await console.as("alice");
  const row = (name: string) => console.row(page, name);
  await row("shop").focus();
  await page.keyboard.press("ArrowDown");
  await expect(row("shop-eu")).toBeFocused();
  await page.keyboard.press("ArrowLeft");
  await expect(row("shop")).toBeFocused();
  await page.keyboard.press("ArrowLeft");
  await expect(row("shop-eu")).toHaveCount(0);
  await expect(row("shop")).toBeFocused();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await expect(row("shop-eu")).toBeFocused();
});

test("what is found neither opens nor closes", async ({ console }) => {
  const page = await console.as("alice");
  const row = (name: string) => console.row(page, name);
  await page.getByRole("searchbox").fill("shop-e");
  await expect(row("data")).toHaveCount(0);
  await row("shop-eu").focus();
  await page.keyboard.press("ArrowLeft");
  await expect(row("shop")).toBeFocused();
  await page.keyboard.press("ArrowLeft");
  await expect(row("shop").getByRole("button", { name: words("projects.close", { name: "shop" }) })).toBeDisabled();
  await page.getByRole("searchbox").fill("");
  await expect(row("data")).toBeVisible();
  await expect(row("shop-eu")).toBeVisible();
});

test("one row is reached by Tab, which says where it stands among how many", async ({ console }) => {
  const page = await console.as("alice");
  await console.row(page, "shop-eu").focus();
  await expect(console.row(page, "shop-eu")).toHaveAttribute("aria-posinset", "1");
  await expect(page.getByRole("tree").locator("[role=treeitem][tabindex='0']")).toHaveCount(1);
  const roots = page.locator("[role=treeitem][aria-level='1']");
  const count = await roots.count();
  expect(await roots.evaluateAll((all) => all.map((one) => one.getAttribute("aria-setsize")))).toEqual(Array(count).fill(String(count)));
  const more = console.row(page, "shop-eu").getByRole("button").last();
  await page.keyboard.press("Tab");
  await expect(more).toBeFocused();
  await page.keyboard.press("Tab");
  expect(await page.getByRole("tree").evaluate((tree) => tree.contains(document.activeElement))).toBe(false);
});

test("an order stays while somebody points at the tree, and comes afterwards", { tag: "@simulated" }, async ({ console, platform }) => {
  const page = await console.as("alice");
  const names = () => page.locator("[role=treeitem][aria-level='1'] a").evaluateAll((all) => all
    .map((link) => ({ name: link.getAttribute("href") ?? "", top: link.getBoundingClientRect().top })).sort((a, b) => a.top - b.top).map(({ name }) => name));
  await console.row(page, "frozen").hover();
  const before = await names();
  try {
    platform.change("projects", undefined, "frozen", { status: { clusters: { local: { used: { pods: "20" } } } } });
    await expect(console.row(page, "frozen").getByText("100 %!!")).toBeVisible();
    expect(await names()).toEqual(before);
    await page.getByRole("heading", { level: 1 }).hover();
    await expect.poll(names).not.toEqual(before);
  } finally {
    platform.change("projects", undefined, "frozen", { status: { clusters: { local: null } } });
  }
});

test("search and limits are in the address, and Back brings what was closed", async ({ console, platform }) => {
  const page = await console.as("alice");
  await console.row(page, "shop").getByRole("button", { name: words("projects.close", { name: "shop" }) }).click();
  await expect(console.row(page, "shop-eu")).toHaveCount(0);
  await page.getByRole("button", { name: words("projects.limits"), exact: true }).click();
  await expect(page).toHaveURL(/\?limits=all$/);
  await console.row(page, "shop").getByRole("link").click();
  await expect(page).toHaveURL(/projects\/shop$/);
  await page.goBack();
  await expect(console.row(page, "shop").getByRole("img")).toHaveCount(1 + limits(platform));
  await expect(console.row(page, "shop-eu")).toHaveCount(0);
  await page.getByRole("searchbox").pressSequentially("shop-e");
  await expect(page).toHaveURL(/q=shop-e/);
  await page.reload();
  await expect(page.getByRole("searchbox")).toHaveValue("shop-e");
  await expect(console.row(page, "shop-eu")).toBeVisible();
  await expect(console.row(page, "data")).toHaveCount(0);
});

test("a row of a phone tells amounts, resource and cluster", async ({ console }) => {
  const page = await console.as("alice");
  await page.setViewportSize({ width: 360, height: 740 });
  const row = console.row(page, "shop");
  await expect(row.getByText(new RegExp(`^${words("share.amounts.given", { amount: "8\\.\\d+", hard: "10" })}$`)).first()).toBeVisible();
  await expect(row.getByText("requests.cpu · local")).toBeVisible();
  await page.getByRole("button", { name: words("projects.limits"), exact: true }).click();
  await expect(row.locator(".limit-name").first()).toBeVisible();
  const cut = await page.locator(".limit-name").evaluateAll((all) => all
    .filter((one) => one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight + 1).map((one) => one.textContent));
  expect(cut).toEqual([]);
});

test("all rows open at once, read well at every width, and keep nobody out", async ({ console, platform }) => {
  const page = await console.as("alice");
  await page.getByRole("button", { name: words("projects.limits"), exact: true }).click();
  await expect(console.row(page, "shop").getByRole("img")).toHaveCount(1 + limits(platform));
  for (const [size, width, height] of [["phone", 360, 740], ["desk", 1440, 900], ["wall", 3840, 2160]] as const) {
    await page.setViewportSize({ width, height });
    const rows = await page.getByRole("treeitem").evaluateAll((all) => all.map((row) => row.getBoundingClientRect()).map(({ top, bottom }) => ({ top, bottom })));
    rows.sort((a, b) => a.top - b.top);
    rows.slice(1).forEach(({ top }, index) => expect(top).toBeGreaterThanOrEqual((rows[index]?.bottom ?? 0) - 1));
    expect(rows.length, size).toBeGreaterThan(2);
  }
  await console.isWellMade(page, "limits");
});

test("one form asks for several clusters, and tells which one has no room", async ({ console, platform }) => {
  const page = await console.as("alice", "/console/create/project?parent=shop");
  await page.getByRole("textbox", { name: new RegExp(`^${words("form.name")}`) }).first().fill("shop-asia");
  await page.getByRole("button", { name: words("form.cluster.add") }).click();
  for (const [cluster, cpu] of [["local", "1"], ["member-1", "90"]] as const) {
    const part = page.getByRole("group", { name: cluster, exact: true });
    // What is limited above is offered once the projects have come.
    await expect(part.getByLabel(words("form.amount.of", { resource: "pods" }), { exact: true })).toBeVisible();
    await part.getByLabel(words("form.amount.of", { resource: "requests.cpu" }), { exact: true }).fill(cpu);
    await part.getByLabel(words("form.amount.of", { resource: "requests.memory" }), { exact: true }).fill("1Gi");
    await part.getByLabel(words("form.amount.of", { resource: "pods" }), { exact: true }).fill("2");
  }
  await expect(page.getByText(words("form.refused"))).toBeVisible();
  await expect(page.getByText(/on cluster "member-1"/)).toBeVisible();
  const level = words("refusal.level.project", { name: "shop" });
  await expect(page.getByText(words("refusal.within", { level, cluster: "member-1" }), { exact: true }).first()).toBeVisible();
  await page.screenshot({ path: "output/pages/several-clusters.png", fullPage: true });
  await page.getByRole("button", { name: words("form.cluster.remove", { cluster: "member-1" }) }).click();
  await expect(page.getByText(words("form.fits"))).toBeVisible();
});
