import type { WebSocketRoute } from "@playwright/test";
import { words } from "../words";
import { expect, test } from "./fixtures";
import { PAGES } from "./routes";

const ACCESS = [{ kind: "Group", name: "shop-developers", role: "edit" }, { kind: "User", name: "dave", role: "view" }];

const COLLECTIONS = /\/apis\/business\.tkestack\.io\/v1\/(projects|namespaces)\?/;

/** What is promised; a machine that builds something beside may miss it now and then, and not each time. */
const SEEN_MILLISECONDS = 1000;
const CHANGES = 5;

test("a change made elsewhere is seen within a second", async ({ console, platform }) => {
  const page = await console.as("alice", PAGES.project);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  const taken: number[] = [];
  for (let change = 0; change < CHANGES; change += 1) {
    const fresh = `Shop ${Date.now()}`;
    platform.change("projects", undefined, "shop", { spec: { displayName: fresh } });
    const made = Date.now();
    await page.getByText(fresh).first().waitFor();
    taken.push(Date.now() - made);
  }
  expect(Math.min(...taken), `seen after ${taken.join(", ")} ms`).toBeLessThanOrEqual(SEEN_MILLISECONDS);
});

test("a question that is open stays open when what it is about changes", async ({ console, platform }) => {
  const page = await console.as("oscar", PAGES.clusters);
  const dialog = page.getByRole("dialog");
  await page.getByRole("region", { name: "local", exact: true }).getByRole("button", { name: words("cluster.cordon"), exact: true }).click();
  await expect(dialog).toBeVisible();
  try {
    platform.change("memberclusters", undefined, "local", { spec: { displayName: "Local" } });
    await expect(page.getByRole("heading", { name: "Local", exact: true, includeHidden: true })).toBeVisible();
    await expect(dialog).toBeVisible();
  } finally {
    platform.change("memberclusters", undefined, "local", { spec: { displayName: null } });
  }
});

test("a link that somebody is at stays when something beside it changes", { tag: "@simulated" }, async ({ console, platform }) => {
  const page = await console.as("alice", PAGES.tenant);
  const link = page.getByRole("region", { name: words("nav.projects"), exact: true }).getByRole("link", { name: "frozen", exact: true });
  await link.focus();
  try {
    const fresh = `Data ${Date.now()}`;
    platform.change("projects", undefined, "data", { spec: { displayName: fresh } });
    await expect(page.getByRole("link", { name: fresh })).toBeVisible();
    await expect(link).toBeFocused();
  } finally {
    platform.change("projects", undefined, "data", { spec: { displayName: "数据平台" } });
  }
});

test("whoever loses his role while he looks is told", async ({ console, platform }) => {
  const page = await console.as("dave", PAGES.project);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  try {
    platform.change("projects", undefined, "shop", { spec: { access: ACCESS.filter(({ name }) => name !== "dave") } });
    // Nothing here, or, for whoever has no role left anywhere, nothing to look at.
    const told = page.getByText(words("state.notfound")).or(page.getByText(words("state.forbidden")));
    await expect(told).toBeVisible();
  } finally {
    platform.change("projects", undefined, "shop", { spec: { access: ACCESS } });
  }
});

test("whoever is refused asks again, by the button or by another page", async ({ console, page }) => {
  const refusal = { kind: "Status", code: 403, message: "forbidden: no role yet" };
  const refuse = () => page.route(COLLECTIONS, (route) => route.fulfill({ status: 403, json: refusal }));
  await refuse();
  await console.as("alice", PAGES.projects);
  await expect(page.getByRole("alert")).toContainText(words("state.forbidden"));
  await console.isAccessible(page);
  await page.unroute(COLLECTIONS);
  await page.getByRole("button", { name: words("state.again") }).click();
  await expect(console.row(page, "shop").first()).toBeVisible();
  await expect(page.getByRole("alert")).toHaveCount(0);

  await refuse();
  await console.as("alice", PAGES.project);
  await expect(page.getByRole("alert")).toContainText(words("state.forbidden"));
  await page.unroute(COLLECTIONS);
  await page.getByRole("link", { name: words("state.back") }).click();
  await expect(console.row(page, "shop").first()).toBeVisible();
});

test("before anything is read nothing is said of what there is", async ({ console, page }) => {
  const why = "no shard answers";
  const busy = { kind: "Status", code: 503, message: why };
  for (const place of [PAGES.projects, PAGES.project, PAGES.findings]) {
    await page.route(COLLECTIONS, (route) => route.fulfill({ status: 503, json: busy }));
    await console.as("alice", place);
    await expect(page.getByText(words("state.unread", { why }))).toBeVisible();
    for (const key of ["projects.none", "state.notfound", "findings.none", "findings.none.own"]) await expect(page.getByText(words(key))).toHaveCount(0);
    await expect(page.getByText(words("projects.count", { count: "0" }))).toHaveCount(0);
    await page.unroute(COLLECTIONS);
    await expect(page.getByText(words("state.unread", { why }))).toHaveCount(0, { timeout: 90_000 });
  }
});

test("a page that is cut off says so, goes on by itself, and shows what it has missed", async ({ console, page, platform }) => {
  const open = new Set<WebSocketRoute>();
  let isCut = false;
  await page.routeWebSocket(/\/apis\//, (socket) => {
    if (isCut) return void socket.close();
    socket.connectToServer();
    open.add(socket);
  });
  await console.as("alice", PAGES.project);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  isCut = true;
  for (const socket of open) await socket.close();
  const notice = page.getByText(words("state.cut").split("{")[0] ?? "");
  await expect(notice).toBeVisible();
  const fresh = `Missed ${Date.now()}`;
  platform.change("projects", undefined, "shop", { spec: { displayName: fresh } });
  isCut = false;
  await expect(page.getByText(fresh).first()).toBeVisible({ timeout: 90_000 });
  await expect(notice).toHaveCount(0, { timeout: 90_000 });
});

test("a server that is replaced while one looks: the page goes on, and sees what comes after", { tag: "@alone" }, async ({ console, platform }) => {
  test.skip(!platform.restarts, "no CONSOLE_RESTART");
  const page = await console.as("alice", PAGES.project);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  await platform.restart();
  const fresh = `After ${Date.now()}`;
  platform.change("projects", undefined, "shop", { spec: { displayName: fresh } });
  await expect(page.getByText(fresh).first()).toBeVisible({ timeout: 90_000 });
});
