/** Whole days of three people, from the logins to what comes of them, in the terminal and in the page: both must say the same. */

import type { Page } from "@playwright/test";
import { Terminal } from "../terminal";
import { words } from "../words";
import { act } from "./acting";
import { ask } from "./asking";
import { expect, test } from "./fixtures";
import { PAGES } from "./routes";

/** The answer is no. */
const NO = 3;
/** Why a charge is given up. */
const WHY = "member-2 burnt down";

test.describe("the same in the page and in the terminal", { tag: "@real" }, () => {
  test("a developer sees what is his, is told what would fit, makes a namespace, and works in it", async ({ console, page, platform }) => {
    const bob = await entered(page, "bob");
    await console.logsIn("bob");
    await expect(console.row(page, "shop")).toBeVisible();
    await expect(console.row(page, "data")).toHaveCount(0);
    const tree = bob.business("tree", "--namespaces");
    expect(tree).toMatchObject({ code: 0, text: expect.stringContaining("local/web") });
    expect(tree.text).not.toMatch(/\bdata\b/);

    await page.goto(platform.origin + PAGES.newNamespace);
    await ask(page, "checkout", "90");
    const refusal = page.getByText(/^requests\.cpu: asked 90/);
    const [, fits] = /at most (\S+) would fit/.exec((await refusal.textContent()) ?? "") ?? [];
    const asked = "requests.cpu=90,requests.memory=128Mi,pods=1";
    const explained = bob.business("explain", "ns", "checkout", "-n", "shop", "--cluster", "local", "--set", asked);
    expect(explained.code).toBe(NO);
    expect(explained.text).toMatch(new RegExp(`project shop +local +requests\\.cpu .*refuses: ${fits} fits`));

    await ask(page, "checkout", "100m");
    await expect(page.getByText(words("form.fits"))).toBeVisible();
    await page.getByRole("button", { name: words("form.create") }).click();
    await expect(page).toHaveURL(/namespaces\/local-checkout$/);
    await expect(page.getByText("shop · Available")).toBeVisible({ timeout: 90_000 });
    expect(bob.business("describe", "namespace", "local-checkout", "-n", "shop").text).toContain("Available");

    const downloading = page.waitForEvent("download");
    await page.getByRole("button", { name: words("namespace.kubeconfig") }).click();
    const file = await (await downloading).path();
    expect(bob.kubectlWith(file, "get", "resourcequota", "checkout", "-o", "name")).toMatchObject({ code: 0, text: "resourcequota/checkout\n" });
    expect(bob.kubectlWith(file, "create", "configmap", "made-by-bob").code).toBe(0);
    expect(bob.kubectlWith(file, "get", "configmaps", "--namespace", "kube-system").text).toContain("Forbidden");
    expect(bob.kubectl("delete", "bns", "local-checkout", "-n", "shop", "--wait=false").code).toBe(0);
    await expect(page.getByText(words("state.notfound.text"))).toBeVisible({ timeout: 90_000 });
  });

  test("a tenant's administrator gives a role, moves budget, and sees what is being released", async ({ console, page, platform }) => {
    const alice = await entered(page, "alice");
    await console.logsIn("alice", PAGES.people);
    await page.getByRole("button", { name: words("people.add") }).click();
    await page.getByRole("group").last().getByLabel(words("column.name")).fill("frank");
    await page.getByRole("group").last().getByLabel(words("column.role")).selectOption("edit");
    await expect(page.getByText(words("people.fits"))).toBeVisible();
    await page.getByRole("button", { name: words("form.save") }).click();
    await expect(page.getByRole("cell", { name: "frank" })).toBeVisible();
    expect(alice.business("access", "list", "shop").text).toMatch(/user frank +edit +here/);
    expect(alice.business("access", "remove", "shop", "--user", "frank").code).toBe(0);
    await expect(page.getByRole("cell", { name: "frank" })).toHaveCount(0);

    for (const [project, cpu] of [["data", "5"], ["shop", "11"]] as const) await budget(page, platform.origin, project, cpu);
    for (const [project, cpu] of [["data", "5"], ["shop", "11"]] as const) expect(hard(alice, project)).toBe(cpu);
    for (const [project, cpu] of [["shop", "10"], ["data", "6"]] as const) {
      const patch = JSON.stringify({ spec: { clusters: { local: { hard: { "requests.cpu": cpu } } } } });
      expect(alice.kubectl("patch", "project", project, "--type=merge", "-p", patch).code).toBe(0);
    }
    await page.goto(platform.origin + PAGES.releasing);
    await expect(page.getByRole("img", { name: /^requests\.cpu on local: .* of 6 given/ }).first()).toBeVisible();
    const row = page.getByRole("region", { name: words("project.releasing") }).first().getByRole("row", { name: /member-2-reports/ });
    await expect(row.getByText(words("release.leaving"))).toBeVisible();
    expect(alice.business("describe", "namespace", "member-2-reports", "-n", "data").text).toContain("Terminating");
  });

  test("an operator locks, cordons, sets a ceiling and gives a charge up, and the tenant's administrator sees each", { tag: "@alone" }, async ({ console, page, platform }) => {
    const oscar = await entered(page, "oscar");
    await console.logsIn("oscar", PAGES.clusters);
    const hers = await console.besides();
    const alice = await entered(hers, "alice");
    await console.logsIn("alice", PAGES.project, hers);

    expect(oscar.business("lock", "shop", "--reason", "unpaid since May").code).toBe(0);
    await expect(hers.getByText(words("project.locked"))).toContainText("unpaid since May");
    expect(alice.business("describe", "project", "shop").text).toContain("unpaid since May");
    expect(oscar.business("unlock", "shop", "--reason", "paid").code).toBe(0);
    await expect(hers.getByText(words("project.locked"))).toHaveCount(0);

    const card = page.getByRole("region", { name: "local", exact: true });
    await act(page, words("cluster.cordon"), { within: card });
    await expect(card.getByText(words("cluster.cordoned"))).toBeVisible();
    expect(oscar.business("describe", "cluster", "local").text).toMatch(/State: +cordoned/);
    await hers.goto(platform.origin + PAGES.newNamespace);
    await ask(hers, "late", "100m");
    await expect(hers.getByText(words("form.refused"))).toBeVisible();
    await expect(hers.getByText(/cordoned/).first()).toBeVisible();
    const asked = "requests.cpu=100m,requests.memory=128Mi,pods=1";
    const explained = alice.business("explain", "ns", "late", "-n", "shop", "--cluster", "local", "--set", asked);
    expect(explained).toMatchObject({ code: NO, text: expect.stringContaining("cordoned") });
    await act(page, words("cluster.uncordon"), { within: card });
    await expect(card.getByText(words("cluster.cordoned"))).toHaveCount(0);

    for (const one of [page, hers]) await one.goto(platform.origin + PAGES.tenant);
    for (const cpu of ["21", "20"]) {
      const patch = JSON.stringify({ spec: { clusters: { local: { hard: { "requests.cpu": cpu } } } } });
      expect(oscar.kubectl("patch", "tenant", "acme", "--type=merge", "-p", patch).code).toBe(0);
      for (const one of [page, hers]) await expect(one.getByRole("img", { name: new RegExp(`^requests\\.cpu on local: .* of ${cpu} given`) }).first()).toBeVisible();
      expect(alice.business("describe", "tenant", "acme").text).toMatch(new RegExp(`local +requests\\.cpu .* ${cpu}\\n`));
    }

    await hers.goto(platform.origin + PAGES.releasing);
    await page.goto(platform.origin + PAGES.leaving);
    await page.getByRole("button", { name: words("act.abandon") }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel(words("act.reason")).fill(WHY);
    await dialog.getByLabel(words("act.typed", { name: "member-2-reports" })).fill("member-2-reports");
    await dialog.getByRole("button", { name: words("act.abandon") }).click();
    await expect(page).toHaveURL(/projects\/data$/);
    // It is gone from the project, and its charge stays, in page and terminal, for him and for her.
    for (const one of [page, hers]) {
      const releasing = one.getByRole("region", { name: words("project.releasing") }).first();
      await expect(releasing.getByText(WHY)).toBeVisible({ timeout: 90_000 });
      await one.goto(platform.origin + PAGES.findings);
      await expect(one.getByRole("row", { name: /member-2\/reports/ }).getByText(words("found.abandoned"))).toBeVisible();
    }
    for (const one of [oscar, alice]) expect(one.business("audit").text).toContain(WHY);
  });
});

/** A terminal of somebody's own, in which he has logged in by way of his browser. */
async function entered(page: Page, name: string): Promise<Terminal> {
  const terminal = new Terminal(test.info().outputPath(name));
  expect(await terminal.logsIn(page, name)).toMatchObject({ code: 0, text: expect.stringContaining(`logged in as ${name}`) });
  return terminal;
}

async function budget(page: Page, origin: string, project: string, cpu: string): Promise<void> {
  await page.goto(`${origin}/console/change/projects/${project}`);
  const local = page.getByRole("group", { name: "local", exact: true });
  await local.getByLabel(words("form.amount.of", { resource: "requests.cpu" }), { exact: true }).fill(cpu);
  await expect(page.getByText(words("form.fits"))).toBeVisible();
  await page.getByRole("button", { name: words("form.save") }).click();
  await expect(page.getByRole("img", { name: new RegExp(`^requests\\.cpu on local: .* of ${cpu} given`) }).first()).toBeVisible();
}

/** What the terminal says a project may give away of the CPU of the first cluster. */
function hard(who: Terminal, project: string): unknown {
  const { roots } = JSON.parse(who.business("tree", project, "-o", "json").text) as { roots: { clusters: Record<string, Record<string, { hard: string }>> }[] };
  return roots[0]?.clusters["local"]?.["requests.cpu"]?.hard;
}
