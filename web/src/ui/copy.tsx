import { createSignal } from "solid-js";
import { t } from "../i18n/messages";

/** Copies a text to the clipboard, and shows whether that succeeded. */
export function CopyButton(props: { text: string; of?: string }) {
  const [done, setDone] = createSignal<"yes" | "no">();
  const copy = async () => {
    setDone(undefined);
    try {
      await navigator.clipboard.writeText(props.text);
      setDone("yes");
    } catch {
      setDone("no");
    }
  };
  return (
    <span class="row">
      <button class="button" type="button" aria-label={props.of ? t("copy.of", { what: props.of }) : t("copy")} onClick={() => void copy()}>{t("copy")}</button>
      <span class="quiet" role="status">{done() === undefined ? "" : t(done() === "yes" ? "copy.done" : "copy.failed")}</span>
    </span>
  );
}

/** A command line with a button that copies it. */
export function CommandLine(props: { line: string }) {
  return <div class="row"><code class="line">{props.line}</code><CopyButton text={props.line} of={props.line} /></div>;
}
