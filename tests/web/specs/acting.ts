import type { Locator, Page } from "@playwright/test";
import { words } from "../words";
import { expect } from "./fixtures";

interface Circumstances {
  reason?: string;
  /** Where the act stands, when others of its name stand beside it. */
  within?: Locator;
}

/** Clicks an act, gives its reason, and confirms. */
export async function act(page: Page, label: string, { reason, within }: Circumstances): Promise<void> {
  await (within ?? page).getByRole("button", { name: label, exact: true }).first().click();
  const dialog = page.getByRole("dialog");
  if (reason !== undefined) await dialog.getByLabel(words("act.reason")).fill(reason);
  await dialog.getByRole("button", { name: words("act.confirm") }).click();
  // It is there until the server has answered, and hides what is behind it.
  await expect(dialog).toHaveCount(0);
}
