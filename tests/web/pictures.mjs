/** Makes the pictures of docs/tasks anew, from the stand-in. Needs a built page. */

import { mkdirSync, statSync } from "node:fs";
import { chromium } from "@playwright/test";
import { StandIn } from "./stand-in/server.mjs";

const { DIST = new URL("../../web/dist", import.meta.url).pathname, CHROMIUM = "/usr/bin/chromium" } = process.env;
const OUT = new URL("../../docs/pictures/", import.meta.url).pathname;
const BYTES_MAX = 150_000;
const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

const PICTURES = [
  { name: "developer-project", who: "bob", path: "projects/shop" },
  { name: "developer-refusal", who: "bob", path: "create/namespace?project=shop", act: tooMuch },
  { name: "developer-namespace", who: "bob", path: "projects/shop/namespaces/local-web" },
  { name: "administrator-projects", who: "alice", path: "", act: (page) => page.getByRole("button", { name: "All limits", exact: true }).click() },
  { name: "administrator-people", who: "alice", path: "people/projects/shop", act: somebodyNew },
  { name: "administrator-move", who: "alice", path: "move/namespaces/shop/local-batch", act: (page) => page.getByLabel("Into project").selectOption("shop-eu") },
  { name: "administrator-releasing", who: "alice", path: "projects/data", act: (page) => showSection(page, "Being released") },
  { name: "operator-clusters", who: "oscar", path: "clusters" },
  { name: "operator-findings", who: "oscar", path: "findings" },
  { name: "operator-abandon", who: "oscar", path: "projects/data/namespaces/member-2-reports", act: (page) => page.getByRole("button", { name: "Abandon" }).click() },
];

async function tooMuch(page) {
  await page.getByRole("textbox").first().fill("checkout");
  await page.getByLabel("Amount of requests.cpu", { exact: true }).fill("90");
  await page.getByLabel("Amount of requests.memory", { exact: true }).fill("4Gi");
  await page.getByLabel("Amount of pods", { exact: true }).fill("10");
}

/** Below the bar at the top. */
const showSection = (page, name) => page.locator(`section[aria-label="${name}"]`).evaluate((section) => window.scrollTo(0, section.offsetTop - 80));

async function somebodyNew(page) {
  await page.getByRole("button", { name: "Add somebody" }).click();
  await page.getByRole("group").last().getByLabel("Name").fill("erin");
  await page.getByRole("group").last().getByLabel("Role").selectOption("edit");
}

mkdirSync(OUT, { recursive: true });
const standIn = new StandIn({ dist: DIST });
const origin = await standIn.start();
const browser = await chromium.launch({ executablePath: CHROMIUM, args });
for (const { name, who, path, act } of PICTURES) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, colorScheme: "light", reducedMotion: "reduce" });
  await context.addCookies([{ name: "stand-in", value: who, url: origin, httpOnly: true }]);
  const page = await context.newPage();
  await page.goto(`${origin}/console/${path}`);
  await page.getByRole("heading", { level: 1 }).waitFor();
  await page.waitForLoadState("networkidle");
  await act?.(page);
  await page.getByText("Asking the server …").waitFor({ state: "detached" });
  await page.waitForLoadState("networkidle");
  const file = `${OUT}${name}.png`;
  await page.screenshot({ path: file });
  const { size } = statSync(file);
  console.log(`${size} ${name}.png`);
  if (size > BYTES_MAX) process.exitCode = 1;
  await context.close();
}
await browser.close();
await standIn.stop();
