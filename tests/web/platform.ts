/**
 * The platform that the tests look at. CONSOLE_URL names a real one: then `kubectl` with KUBECONFIG makes the changes, CONSOLE_PASSWORD is
 * everybody's at its provider, and CONSOLE_RESTART is a command that replaces business-api. Without it, the stand-in.
 */

import { execFileSync, execSync, spawnSync } from "node:child_process";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Page } from "@playwright/test";
import { StandIn } from "./stand-in/server.mjs";

export interface Platform {
  readonly origin: string;
  readonly isReal: boolean;
  /** A merge patch of an operator's, made beside the page. */
  change(plural: string, namespace: string | undefined, name: string, patch: object): void;
  /** Whether the server can be replaced here. */
  readonly restarts: boolean;
  restart(): Promise<void>;
  /** After a test that failed: makes what tests change what it was before them. */
  restore(): void;
  stop(): Promise<void>;
}

const GROUP_PATH = "/apis/business.tkestack.io/v1";
const COMMAND_MILLISECONDS = 120_000;
/** What `cargo xtask up` and objects.yaml say of the objects that tests change. */
const INITIAL = [
  ["memberclusters", "local", { cordoned: false, displayName: null }],
  ["tenants", "acme", { clusters: { local: { hard: { "requests.cpu": "20" } } } }],
  ["projects", "shop", {
    displayName: "shop",
    access: [{ kind: "Group", name: "shop-developers", role: "edit" }, { kind: "User", name: "dave", role: "view" }],
    clusters: { local: { hard: { "requests.cpu": "10" } } },
  }],
  ["projects", "data", { displayName: "数据平台", clusters: { local: { hard: { "requests.cpu": "6" } } } }],
] as const;
/** What operators and administrators do to objects, undone: the path, and what is sent to it. */
const UNDONE = [
  [`${GROUP_PATH}/projects/shop/unlock`, { reason: "a test failed" }],
  [`${GROUP_PATH}/namespaces/data/namespaces/local-batch/transfer`, { project: "shop", reason: "a test failed" }],
] as const;

/** So long a replica takes at most until kube-apiserver reaches it again. */
const REACHED_MILLISECONDS = 120_000;
const DIST = process.env["DIST"] ?? fileURLToPath(new URL("../../web/dist", import.meta.url));

export async function openPlatform(projects = 0): Promise<Platform> {
  const url = process.env["CONSOLE_URL"];
  return url ? new RealPlatform(new URL(url).origin) : SimulatedPlatform.start(projects);
}

class RealPlatform implements Platform {
  readonly isReal = true;
  readonly restarts = process.env["CONSOLE_RESTART"] !== undefined;

  constructor(readonly origin: string) {}

  change(plural: string, namespace: string | undefined, name: string, patch: object): void {
    const place = namespace ? ["--namespace", namespace] : [];
    const what = `${plural}.v1.business.tkestack.io`;
    const args = ["patch", what, name, ...place, "--type=merge", "--patch", JSON.stringify(patch)];
    execFileSync("kubectl", args, { timeout: COMMAND_MILLISECONDS });
  }

  async restart(): Promise<void> {
    execSync(process.env["CONSOLE_RESTART"] ?? "false", { stdio: "inherit", timeout: REACHED_MILLISECONDS * 2 });
    // Until then kube-apiserver answers 503, after which kubectl gives up.
    const end = Date.now() + REACHED_MILLISECONDS;
    while (spawnSync("kubectl", ["get", "projects.v1.business.tkestack.io"], { stdio: "ignore", timeout: COMMAND_MILLISECONDS }).status !== 0) {
      if (Date.now() > end) throw new Error("kube-apiserver does not reach the replica that was started again");
      await pause(100);
    }
  }

  restore(): void {
    // What was not changed is refused, and stays.
    const run = (args: readonly string[], input = "") => spawnSync("kubectl", args, { input, timeout: COMMAND_MILLISECONDS });
    for (const [path, body] of UNDONE) run(["create", "--raw", path, "-f", "-"], JSON.stringify(body));
    for (const [plural, name, spec] of INITIAL) {
      run(["patch", `${plural}.v1.business.tkestack.io`, name, "--type=merge", "--patch", JSON.stringify({ spec })]);
    }
  }

  async stop(): Promise<void> {}
}

class SimulatedPlatform implements Platform {
  readonly isReal = false;
  readonly restarts = true;

  private constructor(readonly standIn: StandIn, readonly origin: string) {}

  static async start(projects: number): Promise<SimulatedPlatform> {
    const standIn = new StandIn({ dist: DIST, projects });
    return new SimulatedPlatform(standIn, await standIn.start());
  }

  change(plural: string, namespace: string | undefined, name: string, patch: object): void {
    this.standIn.change(plural, namespace, name, patch);
  }

  async restart(): Promise<void> {
    await this.standIn.stop();
    await this.standIn.start(Number(new URL(this.origin).port));
  }

  /** Playwright ends the worker of a test that failed, and its stand-in with it. */
  restore(): void {}

  async stop(): Promise<void> {
    await this.standIn.stop();
  }
}

/** Says at the provider's page who one is. */
export async function fillIn(page: Page, name: string): Promise<void> {
  await page.getByLabel("Name").fill(name);
  await page.getByLabel("Password").fill(process.env["CONSOLE_PASSWORD"] ?? "any");
  await page.getByRole("button", { name: "Log in" }).click();
}

/** At the provider's page, as a person does. */
export async function login(page: Page, platform: Platform, name: string, path = "/console/"): Promise<void> {
  await page.goto(platform.origin + path);
  await page.getByRole("main").getByRole("button").first().click();
  await fillIn(page, name);
  await page.waitForURL((url) => url.origin === platform.origin && url.pathname.startsWith("/console/") && url.pathname !== "/console/callback");
}
