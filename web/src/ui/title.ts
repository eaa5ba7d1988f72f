/** The document's title: what stands innermost says it, as long as it is there. */

import { createEffect, onCleanup } from "solid-js";
import { t } from "../i18n/messages";

const told: (() => string)[] = [];

function show(): void {
  const last = told.at(-1);
  document.title = last ? `${last()} · ${t("app.title")}` : t("app.title");
}

/** Says the title, in whatever language, until its owner goes. */
export function entitle(title: () => string): void {
  createEffect(() => {
    title();
    if (!told.includes(title)) told.push(title);
    show();
  });
  onCleanup(() => {
    const at = told.indexOf(title);
    if (at >= 0) told.splice(at, 1);
    show();
  });
}
