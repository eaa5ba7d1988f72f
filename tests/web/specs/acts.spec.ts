import { words } from "../words";
import { act } from "./acting";
import { expect, test } from "./fixtures";
import { PAGES } from "./routes";

test.describe("an operator", () => {
  test("locks a project with a reason, which everybody reads, and unlocks it", async ({ console }) => {
    const page = await console.as("oscar", PAGES.project);
    await page.getByRole("button", { name: words("act.lock"), exact: true }).click();
    await expect(page.getByRole("dialog")).toBeVisible();
    await console.isWellMade(page, "dialog-lock");
    await page.keyboard.press("Escape");
    await act(page, words("act.lock"), { reason: "unpaid since May" });
    await expect(page.getByText(words("project.locked"))).toContainText("unpaid since May");
    await act(page, words("act.unlock"), { reason: "paid" });
    await expect(page.getByText(words("project.locked"))).toHaveCount(0);
  });

  test("cordons a cluster and takes that back", async ({ console }) => {
    const page = await console.as("oscar", PAGES.clusters);
    const card = page.getByRole("region", { name: "local", exact: true });
    await act(page, words("cluster.cordon"), { within: card });
    await expect(card.getByText(words("cluster.cordoned"))).toBeVisible();
    await act(page, words("cluster.uncordon"), { within: card });
    await expect(card.getByRole("button", { name: words("cluster.cordon"), exact: true })).toBeVisible();
    await expect(card.getByText(words("cluster.cordoned"))).toHaveCount(0);
  });

  // On a platform the story of an operator abandons it. Others look at it before it is gone.
  test("abandons what no cluster confirms only after typing its name, and the charge stays held", { tag: ["@simulated", "@alone"] }, async ({ console, platform }) => {
    const page = await console.as("oscar", PAGES.leaving);
    await page.getByRole("button", { name: words("act.abandon") }).click();
    const dialog = page.getByRole("dialog");
    const sure = dialog.getByRole("button", { name: words("act.abandon") });
    await dialog.getByLabel(words("act.reason")).fill("member-2 burnt down");
    await expect(sure).toBeDisabled();
    await console.isWellMade(page, "dialog-abandon");
    await dialog.getByLabel(words("act.typed", { name: "member-2-reports" })).fill("member-2-reports");
    await sure.click();
    await expect(page.getByRole("region", { name: words("project.releasing") }).first().getByText("member-2 burnt down")).toBeVisible();
    await page.goto(platform.origin + PAGES.findings);
    await expect(page.getByRole("row", { name: /member-2\/reports/ }).getByText(words("found.abandoned"))).toBeVisible();
  });
});

test("a namespace does not move to where there is no room, and the level is told", async ({ console, platform }) => {
  const page = await console.as("alice", PAGES.move);
  await page.getByLabel(words("move.to")).selectOption("shop-eu");
  await expect(page.getByText(words("form.refused"))).toBeVisible();
  await expect(page.getByText(words("refusal.level.project", { name: "shop-eu" }))).toBeVisible();
  await console.isWellMade(page, "move-refused");
});

test("a project is offered no place below itself, and places are called as in the tree", async ({ console }) => {
  const page = await console.as("alice", "/console/move/projects/shop");
  const place = page.getByLabel(words("move.to"));
  await expect(place.locator("option[value='data']")).toHaveText(/^.+ · data$/);
  for (const own of ["shop", "shop-eu"]) await expect(place.locator(`option[value='${own}']`)).toHaveCount(0);
});

// There and back: the stand-in does not count what a move gives back.
test("a namespace moves where there is room, and is found there", { tag: "@real" }, async ({ console, platform }) => {
  const page = await console.as("alice", PAGES.move);
  await page.getByLabel(words("move.to")).selectOption("data");
  await page.getByLabel(words("act.reason")).fill("the team has moved");
  await expect(page.getByText(words("form.fits"))).toBeVisible();
  await page.getByRole("button", { name: words("act.move") }).click();
  await expect(page).toHaveURL(/projects\/data\/namespaces\/local-batch$/);
  await expect(page.getByRole("heading", { level: 1, name: "local-batch" })).toBeVisible();
  await page.goto(`${platform.origin}/console/move/namespaces/data/local-batch`);
  await page.getByLabel(words("move.to")).selectOption("shop");
  await page.getByLabel(words("act.reason")).fill("the team is back");
  await page.getByRole("button", { name: words("act.move") }).click();
  await expect(page).toHaveURL(/projects\/shop\/namespaces\/local-batch$/);
});

test("who asks for deletion is told what that means", async ({ console }) => {
  const page = await console.as("alice", PAGES.namespace);
  await page.getByRole("button", { name: words("act.delete"), exact: true }).click();
  await expect(page.getByRole("dialog").getByText(words("act.delete.namespace"))).toBeVisible();
  await expect(page.getByRole("dialog").getByRole("button", { name: words("act.delete"), exact: true })).toBeDisabled();
  await console.isWellMade(page, "dialog-delete");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
});

test("a deletion spares what was made anew under its name meanwhile", { tag: "@simulated" }, async ({ console, platform }) => {
  const page = await console.as("alice", PAGES.namespace);
  await page.getByRole("button", { name: words("act.delete"), exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel(words("act.typed", { name: "local-web" })).fill("local-web");
  // Gone and made anew between two showings: to the page, another version.
  platform.change("namespaces", "shop", "local-web", { metadata: { uid: "another" } });
  await dialog.getByRole("button", { name: words("act.delete"), exact: true }).click();
  await expect(dialog.getByRole("alert")).toContainText("does not match the UID in record (another)");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("heading", { level: 1, name: "local-web" })).toBeVisible();
});

test("a question that works stays until it is answered, and shows what came of it", async ({ console }) => {
  const page = await console.as("oscar", PAGES.project);
  let answer = (): void => undefined;
  const answered = new Promise<void>((resolve) => (answer = resolve));
  await page.route("**/projects/shop/lock", async (route) => {
    await answered;
    await route.fulfill({ status: 500, json: { kind: "Status", code: 500, message: "no luck" } });
  });
  await page.getByRole("button", { name: words("act.lock"), exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel(words("act.reason")).fill("unpaid since May");
  await dialog.getByRole("button", { name: words("act.confirm") }).click();
  await expect(dialog.getByRole("button", { name: words("form.cancel") })).toBeDisabled();
  await page.keyboard.press("Escape");
  answer();
  await expect(dialog.getByRole("alert")).toContainText("no luck");
  await expect(dialog.getByRole("alert")).toContainText(words("form.unknown"));
  await page.keyboard.press("Escape");
  await expect(dialog).toHaveCount(0);
});

test("a project that goes elsewhere meanwhile is not moved into", { tag: "@simulated" }, async ({ console, platform }) => {
  const page = await console.as("oscar", PAGES.move);
  const isNothing = page.getByText(words("form.yaml.nothing"));
  await page.getByLabel(words("move.to")).selectOption("frozen");
  await expect(isNothing).toHaveCount(0);
  try {
    platform.change("projects", undefined, "frozen", { spec: { tenantID: "globex" } });
    await expect(isNothing).toBeVisible();
    await expect(page.getByRole("button", { name: words("act.move"), exact: true })).toBeDisabled();
  } finally {
    platform.change("projects", undefined, "frozen", { spec: { tenantID: "acme" } });
  }
});
