import { createSignal } from "solid-js";
import { t } from "../i18n/messages";

/** Copies a text, and says whether that was done. */
export function CopyButton(props: { text: string; of?: string }) {
  const [done, tell] = createSignal<"yes" | "no">();
  const copy = async () => {
    tell(undefined);
    try {
      await navigator.clipboard.writeText(props.text);
      tell("yes");
    } catch {
      tell("no");
    }
  };
  return (
    <span class="row">
      <button class="button" type="button" aria-label={props.of ? t("copy.of", { what: props.of }) : t("copy")} onClick={() => void copy()}>{t("copy")}</button>
      <span class="quiet" role="status">{done() === undefined ? "" : t(done() === "yes" ? "copy.done" : "copy.failed")}</span>
    </span>
  );
}

/** A command, as it is run. */
export function Runnable(props: { line: string }) {
  return <div class="row"><code class="line">{props.line}</code><CopyButton text={props.line} of={props.line} /></div>;
}
