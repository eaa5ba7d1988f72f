/** The title of the document: the component that was mounted last sets it. */

import { createEffect, onCleanup } from "solid-js";
import { t } from "../i18n/messages";

const titles: (() => string)[] = [];

function show(): void {
  const last = titles.at(-1);
  document.title = last ? `${last()} · ${t("app.title")}` : t("app.title");
}

/** Sets the title until the cleanup of the owner; follows the language. */
export function createTitle(title: () => string): void {
  createEffect(() => {
    title();
    if (!titles.includes(title)) titles.push(title);
    show();
  });
  onCleanup(() => {
    const at = titles.indexOf(title);
    if (at >= 0) titles.splice(at, 1);
    show();
  });
}
