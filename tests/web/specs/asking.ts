import type { Page } from "@playwright/test";
import { words } from "../words";

const AMOUNTS = { "requests.memory": "128Mi", pods: "1" };

/** Fills the form of a new namespace; amounts that the form does not offer by itself are added. */
export async function ask(page: Page, name: string, cpu: string): Promise<void> {
  await page.getByRole("textbox", { name: new RegExp(`^${words("form.name")}`) }).first().fill(name);
  for (const [resource, amount] of Object.entries({ "requests.cpu": cpu, ...AMOUNTS })) {
    const field = page.getByLabel(words("form.amount.of", { resource }), { exact: true });
    if ((await field.count()) === 0) {
      await page.getByRole("button", { name: words("form.amounts.add") }).click();
      const added = page.getByLabel(words("form.resource"), { exact: true }).last();
      await added.fill(resource);
      await added.press("Tab");
    }
    await field.fill(amount);
  }
}
