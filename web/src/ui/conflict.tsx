import { For } from "solid-js";
import type { Stored } from "../api/write";
import { t } from "../i18n/messages";

/** How a form shows and merges the changes of somebody else. */
export interface ConflictHandler {
  describe: (fresh: Stored) => string[];
  /** Takes the fresh object as the base; keeps what the user has typed. */
  rebase: (fresh: Stored) => void;
}

/** Shows what somebody else has changed. */
export function ConflictNotice(props: { fresh: Stored; of: ConflictHandler }) {
  return (
    <section class="notice stairs" role="alert" aria-label={t("meanwhile.title")}>
      <h2>{t("meanwhile.title")}</h2>
      <ul class="stairs"><For each={props.of.describe(props.fresh)}>{(line) => <li>{line}</li>}</For></ul>
      <p>{t("meanwhile.text")}</p>
      <div><button class="button" type="button" onClick={() => props.of.rebase(props.fresh)}>{t("meanwhile.take")}</button></div>
    </section>
  );
}

/** The old and the new value of a field. */
export function fromTo(what: string, before: string | undefined, after: string | undefined): string {
  return `${what}: ${before || "–"} → ${after || "–"}`;
}
