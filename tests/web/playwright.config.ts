import { defineConfig } from "@playwright/test";

// Without these Chromium asks for hosts of its own.
const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

// What a platform does not answer at will, and what a stand-in cannot.
const LEFT_OUT = [process.env["CONSOLE_URL"] ? /@simulated/ : /@real/];
const ALONE = /@alone/;
const LOOKING = "pages.spec.ts";

export default defineConfig({
  testDir: "specs",
  outputDir: "output",
  // One acts on the platform while another looks at it; what others would notice comes when both are done.
  workers: 2,
  projects: [
    { name: "act", workers: 1, testIgnore: LOOKING, grepInvert: [...LEFT_OUT, ALONE] },
    { name: "look", workers: 1, testMatch: LOOKING, grepInvert: LEFT_OUT },
    { name: "alone", workers: 1, grep: ALONE, grepInvert: LEFT_OUT, dependencies: ["act", "look"] },
  ],
  // Several times what a usual machine needs: each wait ends as soon as its condition holds.
  timeout: 160_000,
  expect: { timeout: 30_000 },
  reporter: [["list"]],
  use: {
    ignoreHTTPSErrors: true,
    trace: "retain-on-failure",
    actionTimeout: 45_000,
    launchOptions: { executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args },
  },
});
