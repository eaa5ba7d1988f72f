import { AxeBuilder } from "@axe-core/playwright";
import { test as base, type BrowserContext, type Cookie, expect, type Locator, type Page } from "@playwright/test";
import { login, openPlatform, type Platform } from "../platform";

interface Console {
  /** Somebody who has logged in, in this test or lately, and looks at a place. */
  as(name: string, path?: string): Promise<Page>;
  /** The same, who comes from the provider's page; what he does to his session is nobody else's. */
  logsIn(name: string, path?: string, his?: Page): Promise<Page>;
  /** The page of another browser, for whoever looks at the same time. */
  besides(): Promise<Page>;
  /** A project's row among all. */
  row(page: Page, name: string): Locator;
  /** In both themes and at every width: keeps nobody out, does not scroll sideways, and is kept as a picture. */
  isWellMade(page: Page, name: string): Promise<void>;
  /** Nothing that keeps people out: all that is looked for, its colours alone, or all but its colours. */
  isAccessible(page: Page, looked?: "all" | "colours" | "words"): Promise<void>;
}

/** A session, and when it began. */
interface Kept {
  cookies: Cookie[];
  since: number;
}

const SIZES = [
  { name: "phone", width: 360, height: 740 },
  { name: "wall", width: 3840, height: 2160 },
  { name: "desk", width: 1440, height: 900 },
];

/** With what a test lasts at most, before the page would exchange the token, which providers give out once. */
const FRESH_MILLISECONDS = 60_000;
/** A row of the tree is called by its project and how full it is: what else stands in it are buttons and bars with names of their own. */
const ROW_NAMED_APART = /^label-content-name-mismatch: <div class="tree-row" /;
const CONTRAST = "color-contrast";

/** Names of this machine: the platform's and the provider's. */
const HERE = ["127.0.0.1", "localhost"];

/** In the menu under one's name. */
export async function choose(page: Page, item: string): Promise<void> {
  await page.getByRole("banner").getByRole("button").click();
  await page.getByRole("menuitemradio", { name: item, exact: true }).click();
  await page.keyboard.press("Escape");
}

/** A page that breaks its own content security policy, or a script of it that fails, fails the test. */
function watchFaults(page: Page, faults: string[]): void {
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("console", (message) => {
    if (/Content Security Policy/i.test(message.text())) faults.push(message.text());
  });
  page.on("request", (request) => {
    const { hostname, protocol } = new URL(request.url());
    if (protocol.startsWith("http") && !HERE.includes(hostname) && !hostname.endsWith(".test")) faults.push(`a third party: ${request.url()}`);
  });
}

export const test = base.extend<{ console: Console; faults: string[]; restored: void }, { platform: Platform; sessions: Map<string, Kept> }>({
  platform: [
    async ({}, use) => {
      const platform = await openPlatform();
      await use(platform);
      await platform.stop();
    },
    { scope: "worker" },
  ],
  sessions: [async ({}, use) => use(new Map()), { scope: "worker" }],
  faults: [
    async ({ page }, use) => {
      const faults: string[] = [];
      watchFaults(page, faults);
      await use(faults);
      expect(faults).toEqual([]);
    },
    { auto: true },
  ],
  /** What a test that failed has left behind does not make others fail. */
  restored: [
    async ({ platform }, use, info) => {
      await use();
      if (info.status !== info.expectedStatus) platform.restore();
    },
    { auto: true },
  ],
  console: async ({ browser, faults, page, platform, sessions }, use) => {
    const others: BrowserContext[] = [];
    const isAccessible: Console["isAccessible"] = async (page, looked = "all") => {
      const builder = new AxeBuilder({ page });
      if (looked === "colours") builder.withRules(CONTRAST);
      else builder.withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]);
      if (looked === "words") builder.disableRules(CONTRAST);
      const { violations } = await builder.analyze();
      const found = violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
      expect(found.filter((one) => !ROW_NAMED_APART.test(one))).toEqual([]);
    };
    await use({
      async as(name, path = "/console/") {
        const kept = sessions.get(name);
        if (kept && Date.now() - kept.since < FRESH_MILLISECONDS) {
          await page.context().addCookies(kept.cookies);
          await page.goto(platform.origin + path);
        } else {
          const since = Date.now();
          // Of whoever this test has shown before: the login's page comes to nobody who is logged in.
          await page.context().clearCookies();
          await login(page, platform, name, path);
          sessions.set(name, { cookies: await page.context().cookies(platform.origin), since });
        }
        return page;
      },
      async logsIn(name, path, his = page) {
        await login(his, platform, name, path);
        return his;
      },
      async besides() {
        const other = await browser.newContext();
        others.push(other);
        const page = await other.newPage();
        watchFaults(page, faults);
        return page;
      },
      isAccessible,
      async isWellMade(page, name) {
        for (const colorScheme of ["light", "dark"] as const) {
          await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
          // What a page is does not change with its colours.
          await isAccessible(page, colorScheme === "light" ? "all" : "colours");
          for (const { name: size, ...viewport } of SIZES) {
            await page.setViewportSize(viewport);
            // What floats is placed anew with the next frame.
            const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
            await expect.poll(overflow, { message: `${size} scrolls sideways` }).toBeLessThanOrEqual(0);
            await page.screenshot({ path: `output/pages/${name}-${colorScheme}-${size}.png`, fullPage: size !== "desk" });
          }
        }
      },
      row: (page, name) => page.getByRole("treeitem").filter({ has: page.locator(`a[href$="/projects/${name}"]`) }),
    });
    for (const other of others) await other.close();
  },
});

export { expect };
