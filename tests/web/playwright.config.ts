import { defineConfig } from "@playwright/test";

// Without these Chromium asks for hosts of its own.
const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

export default defineConfig({
  testDir: "specs",
  // What a platform does not answer at will, and what a stand-in cannot.
  grepInvert: process.env["CONSOLE_URL"] ? /@simulated/ : /@real/,
  outputDir: "output",
  workers: 1,
  timeout: 60_000,
  expect: { timeout: 10_000 },
  reporter: [["list"]],
  use: {
    ignoreHTTPSErrors: true,
    trace: "retain-on-failure",
    actionTimeout: 15_000,
    launchOptions: { executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args },
  },
});
