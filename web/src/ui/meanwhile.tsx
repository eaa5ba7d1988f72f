import { For } from "solid-js";
import type { Stored } from "../api/writing";
import { t } from "../i18n/messages";

/** How a form says what somebody else has changed, and goes on from there. */
export interface Meanwhile {
  told: (fresh: Stored) => string[];
  /** What was typed stays. */
  take: (fresh: Stored) => void;
}

/** Somebody else was faster. */
export function ChangedNotice(props: { fresh: Stored; of: Meanwhile }) {
  return (
    <section class="notice stairs" role="alert" aria-label={t("meanwhile.title")}>
      <h2>{t("meanwhile.title")}</h2>
      <ul class="stairs"><For each={props.of.told(props.fresh)}>{(line) => <li>{line}</li>}</For></ul>
      <p>{t("meanwhile.text")}</p>
      <div><button class="button" type="button" onClick={() => props.of.take(props.fresh)}>{t("meanwhile.take")}</button></div>
    </section>
  );
}

/** One thing that was, and what it is now. */
export function fromTo(what: string, before: string | undefined, after: string | undefined): string {
  return `${what}: ${before || "–"} → ${after || "–"}`;
}
