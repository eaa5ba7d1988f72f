/** Whole days of three people, from the login to what comes of it, in the page and in the terminal: both must say the same. */

import type { Page } from "@playwright/test";
import { business, kubectl, kubectlWith } from "../terminal";
import { words } from "../words";
import { ask } from "./asking";
import { expect, test } from "./fixtures";
import { PAGES } from "./routes";

/** The answer is no. */
const NO = 3;

test.describe("the same in the page and in the terminal", { tag: "@real" }, () => {
  test("a developer sees what is his, is told what would fit, makes a namespace, and works in it", async ({ console, platform }) => {
    const page = await console.logsIn("bob");
    await expect(console.row(page, "shop")).toBeVisible();
    await expect(console.row(page, "data")).toHaveCount(0);
    const tree = business("bob", "tree", "--namespaces");
    expect(tree).toMatchObject({ code: 0, text: expect.stringContaining("local/web") });
    expect(tree.text).not.toMatch(/\bdata\b/);

    await page.goto(platform.origin + PAGES.newNamespace);
    await ask(page, "checkout", "90");
    const refusal = page.getByText(/^requests\.cpu: asked 90/);
    const [, fits] = /at most (\S+) would fit/.exec((await refusal.textContent()) ?? "") ?? [];
    const asked = "requests.cpu=90,requests.memory=128Mi,pods=1";
    const explained = business("bob", "explain", "ns", "checkout", "-n", "shop", "--cluster", "local", "--set", asked);
    expect(explained.code).toBe(NO);
    expect(explained.text).toMatch(new RegExp(`project shop +local +requests\\.cpu .*refuses: ${fits} fits`));

    await ask(page, "checkout", "100m");
    await expect(page.getByText(words("form.fits"))).toBeVisible();
    await page.getByRole("button", { name: words("form.create") }).click();
    await expect(page).toHaveURL(/namespaces\/local-checkout$/);
    await expect(page.getByText("shop · Available")).toBeVisible({ timeout: 20_000 });
    expect(business("bob", "describe", "namespace", "local-checkout", "-n", "shop").text).toContain("Available");

    const downloading = page.waitForEvent("download");
    await page.getByRole("button", { name: words("namespace.kubeconfig") }).click();
    const file = await (await downloading).path();
    expect(kubectlWith(file, "get", "resourcequota", "checkout", "-o", "name")).toMatchObject({ code: 0, text: "resourcequota/checkout\n" });
    expect(kubectlWith(file, "create", "configmap", "made-by-bob").code).toBe(0);
    expect(kubectlWith(file, "get", "configmaps", "--namespace", "kube-system").text).toContain("Forbidden");
    expect(kubectl("bob", ["delete", "bns", "local-checkout", "-n", "shop", "--wait=false"]).code).toBe(0);
    await expect(page.getByText(words("state.notfound.text"))).toBeVisible({ timeout: 20_000 });
  });

  test("a tenant's administrator gives a role, moves budget, and sees what is being released", async ({ console, platform }) => {
    const page = await console.logsIn("alice", PAGES.people);
    await page.getByRole("button", { name: words("people.add") }).click();
    await page.getByRole("group").last().getByLabel(words("column.name")).fill("frank");
    await page.getByRole("group").last().getByLabel(words("column.role")).selectOption("edit");
    await expect(page.getByText(words("people.fits"))).toBeVisible();
    await page.getByRole("button", { name: words("form.save") }).click();
    await expect(page.getByRole("cell", { name: "frank" })).toBeVisible();
    expect(business("alice", "access", "list", "shop").text).toMatch(/user frank +edit +here/);
    expect(business("alice", "access", "remove", "shop", "--user", "frank").code).toBe(0);
    await expect(page.getByRole("cell", { name: "frank" })).toHaveCount(0);

    for (const [project, cpu] of [["data", "5"], ["shop", "11"]] as const) await budget(page, platform.origin, project, cpu);
    for (const [project, cpu] of [["data", "5"], ["shop", "11"]] as const) expect(hard(project)).toBe(cpu);
    for (const [project, cpu] of [["shop", "10"], ["data", "6"]] as const) {
      const patch = JSON.stringify({ spec: { clusters: { local: { hard: { "requests.cpu": cpu } } } } });
      expect(kubectl("alice", ["patch", "project", project, "--type=merge", "-p", patch]).code).toBe(0);
    }
    await page.goto(platform.origin + PAGES.releasing);
    await expect(page.getByRole("img", { name: /^requests\.cpu on local: .* of 6 given/ }).first()).toBeVisible();
    const row = page.getByRole("region", { name: words("project.releasing") }).first().getByRole("row", { name: /member-2-reports/ });
    await expect(row.getByText(words("release.leaving"))).toBeVisible();
    expect(business("alice", "describe", "namespace", "member-2-reports", "-n", "data").text).toContain("Terminating");
  });

  test("an operator locks, cordons, sets a ceiling and gives a charge up, and the tenant's administrator sees each", { tag: "@alone" }, async ({ console, platform }) => {
    const page = await console.logsIn("alice", PAGES.project);
    expect(business("oscar", "lock", "shop", "--reason", "unpaid since May").code).toBe(0);
    await expect(page.getByText(words("project.locked"))).toContainText("unpaid since May");
    expect(business("alice", "describe", "project", "shop").text).toContain("unpaid since May");
    expect(business("oscar", "unlock", "shop", "--reason", "paid").code).toBe(0);
    await expect(page.getByText(words("project.locked"))).toHaveCount(0);

    expect(business("oscar", "cordon", "local").code).toBe(0);
    await page.goto(platform.origin + PAGES.newNamespace);
    await ask(page, "late", "100m");
    await expect(page.getByText(words("form.refused"))).toBeVisible();
    await expect(page.getByText(/cordoned/).first()).toBeVisible();
    const asked = "requests.cpu=100m,requests.memory=128Mi,pods=1";
    const explained = business("alice", "explain", "ns", "late", "-n", "shop", "--cluster", "local", "--set", asked);
    expect(explained).toMatchObject({ code: NO, text: expect.stringContaining("cordoned") });
    expect(business("oscar", "uncordon", "local").code).toBe(0);

    await page.goto(platform.origin + PAGES.tenant);
    for (const cpu of ["21", "20"]) {
      const patch = JSON.stringify({ spec: { clusters: { local: { hard: { "requests.cpu": cpu } } } } });
      expect(kubectl("oscar", ["patch", "tenant", "acme", "--type=merge", "-p", patch]).code).toBe(0);
      await expect(page.getByRole("img", { name: new RegExp(`^requests\\.cpu on local: .* of ${cpu} given`) }).first()).toBeVisible();
      expect(business("alice", "describe", "tenant", "acme").text).toMatch(new RegExp(`local +requests\\.cpu .* ${cpu}\\n`));
    }

    await page.goto(platform.origin + PAGES.releasing);
    const place = "/apis/business.tkestack.io/v1/namespaces/data/namespaces/member-2-reports/abandon";
    const body = JSON.stringify({ reason: "member-2 burnt down" });
    expect(kubectl("oscar", ["create", "--raw", place, "-f", "-"], body).code).toBe(0);
    // It is gone from the project, and its charge stays, in page and terminal.
    const releasing = page.getByRole("region", { name: words("project.releasing") }).first();
    await expect(releasing.getByText("member-2 burnt down")).toBeVisible({ timeout: 20_000 });
    await page.goto(platform.origin + PAGES.findings);
    await expect(page.getByRole("row", { name: /member-2\/reports/ }).getByText(words("found.abandoned"))).toBeVisible();
    expect(business("oscar", "audit").text).toContain("member-2 burnt down");
  });
});

async function budget(page: Page, origin: string, project: string, cpu: string): Promise<void> {
  await page.goto(`${origin}/console/change/projects/${project}`);
  const local = page.getByRole("group", { name: "local", exact: true });
  await local.getByLabel(words("form.amount.of", { resource: "requests.cpu" }), { exact: true }).fill(cpu);
  await expect(page.getByText(words("form.fits"))).toBeVisible();
  await page.getByRole("button", { name: words("form.save") }).click();
  await expect(page.getByRole("img", { name: new RegExp(`^requests\\.cpu on local: .* of ${cpu} given`) }).first()).toBeVisible();
}

/** What the terminal says a project may give away of the CPU of the first cluster. */
function hard(project: string): unknown {
  const { roots } = JSON.parse(business("alice", "tree", project, "-o", "json").text) as { roots: { clusters: Record<string, Record<string, { hard: string }>> }[] };
  return roots[0]?.clusters["local"]?.["requests.cpu"]?.hard;
}
