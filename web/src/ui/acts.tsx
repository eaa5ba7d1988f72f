/** What somebody does to an object. The server decides; what it says is shown. */

import { Dialog } from "@kobalte/core/dialog";
import { A, useNavigate } from "@solidjs/router";
import { type ParentProps, Show, createSignal } from "solid-js";
import { request } from "../api/client";
import { pathOf } from "../api/collections";
import { t } from "../i18n/messages";

export function ReviewLink(props: { plural: string; name: string; namespace?: string }) {
  const place = () => (props.namespace ? `${props.namespace}/${props.name}` : props.name);
  return <A class="button" href={`/review/${props.plural}/${place()}`}>{t("act.review")}</A>;
}

/** Asks once more, does it, and shows a refusal where it was asked. */
export function Confirmed(props: ParentProps<{ label: string; title: string; text?: string; grave?: boolean; act: () => Promise<unknown> }>) {
  const [open, setOpen] = createSignal(false);
  const [error, setError] = createSignal<unknown>();
  const [busy, setBusy] = createSignal(false);
  const act = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      await props.act();
      setOpen(false);
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog open={open()} onOpenChange={setOpen}>
      <Dialog.Trigger class={`button ${props.grave ? "grave" : ""}`}>{props.label}</Dialog.Trigger>
      <Dialog.Portal>
        <Dialog.Overlay class="veil" />
        <div class="dialog-place">
          <Dialog.Content class="dialog">
            <Dialog.Title as="h2">{props.title}</Dialog.Title>
            <form class="stairs" onSubmit={(event) => void act(event)}>
              <Show when={props.text}>{(text) => <Dialog.Description as="p">{text()}</Dialog.Description>}</Show>
              {props.children}
              <Show when={error()}>{(failure) => <p class="notice bad" role="alert">{messageOf(failure())}</p>}</Show>
              <div class="row">
                <button class={`button ${props.grave ? "grave" : "main"}`} type="submit" disabled={busy()}>{t("act.confirm")}</button>
                <Dialog.CloseButton class="button" type="button" aria-label={t("form.cancel")}>{t("form.cancel")}</Dialog.CloseButton>
              </div>
            </form>
          </Dialog.Content>
        </div>
      </Dialog.Portal>
    </Dialog>
  );
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export function DeleteButton(props: { plural: string; name: string; namespace?: string; text: string; after: string }) {
  const navigate = useNavigate();
  const act = async () => {
    await request(pathOf(props.plural, props.name, props.namespace), { method: "DELETE" });
    navigate(props.after);
  };
  return <Confirmed grave label={t("act.delete")} title={t("act.delete.title", { name: props.name })} text={props.text} act={act} />;
}

/** An act of an operator, with its reason. */
export function ReasonedAct(props: { label: string; path: string }) {
  const [reason, setReason] = createSignal("");
  const act = () => request(props.path, { method: "POST", body: { reason: reason() } });
  return (
    <Confirmed label={props.label} title={props.label} act={act}>
      <label class="field">
        <span>{t("act.reason")}</span>
        <input required value={reason()} onInput={(event) => setReason(event.currentTarget.value)} />
      </label>
    </Confirmed>
  );
}
