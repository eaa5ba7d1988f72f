/** Buttons for actions on an object. The server authorizes them; its refusals are shown. */

import { Dialog } from "@kobalte/core/dialog";
import { A, useNavigate } from "@solidjs/router";
import { type ParentProps, Show, batch, createSignal, untrack } from "solid-js";
import { isOutcomeUnknown, request } from "../api/client";
import { pathOf } from "../api/collections";
import { remove } from "../api/write";
import { t } from "../i18n/messages";
import { ErrorText } from "./parts";
import { createNavigationCheck } from "./navigation";

export function ReviewLink(props: { plural: string; name: string; namespace?: string }) {
  const place = () => (props.namespace ? `${props.namespace}/${props.name}` : props.name);
  return <A class="button" href={`/review/${props.plural}/${place()}`}>{t("act.review")}</A>;
}

interface ConfirmButtonProps {
  label: string;
  title: string;
  text?: string;
  grave?: boolean;
  /** What the user must type first, for an action that cannot be undone. */
  typed?: string;
  act: () => Promise<unknown>;
}

/**
 * A button with a confirmation dialog, which also shows a refusal. The dialog keeps the text and the action that it had when it was opened:
 * it must not turn into its opposite while the user reads it. It cannot be closed while the action runs.
 */
export function ConfirmButton(props: ParentProps<ConfirmButtonProps>) {
  const now = (): ConfirmButtonProps => {
    const { label, title, text, grave, typed, act } = props;
    return { label, title, act, grave: grave ?? false, ...(text ? { text } : {}), ...(typed ? { typed } : {}) };
  };
  const [open, setOpen] = createSignal(false);
  const [asked, setAsked] = createSignal(untrack(now));
  const [typed, setTyped] = createSignal("");
  const [error, setError] = createSignal<unknown>();
  const [busy, setBusy] = createSignal(false);
  const turn = (isOpen: boolean) => batch(() => {
    if (isOpen) setAsked(now());
    setTyped("");
    setError(undefined);
    setOpen(isOpen);
  });
  const act = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      await asked().act();
      turn(false);
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog open={open()} onOpenChange={(isOpen) => busy() || turn(isOpen)}>
      <Dialog.Trigger class={`button ${props.grave ? "grave" : ""}`}>{props.label}</Dialog.Trigger>
      <Dialog.Portal>
        <Dialog.Overlay class="veil" />
        <div class="dialog-place">
          <Dialog.Content class="dialog">
            <Dialog.Title as="h2">{asked().title}</Dialog.Title>
            <form class="stairs" onSubmit={(event) => void act(event)}>
              <Show when={asked().text}>{(text) => <Dialog.Description as="p">{text()}</Dialog.Description>}</Show>
              {props.children}
              <Show when={asked().typed}>
                {(wanted) => (
                  <label class="field">
                    <span>{t("act.typed", { name: wanted() })}</span>
                    <input required autocomplete="off" value={typed()} onInput={(event) => setTyped(event.currentTarget.value)} />
                  </label>
                )}
              </Show>
              <Show when={error()}>
                {(failure) => (
                  <div class="stairs" role="alert">
                    <p class="notice bad"><ErrorText error={failure()} /></p>
                    <Show when={isOutcomeUnknown(failure())}><p>{t("form.unknown")}</p></Show>
                  </div>
                )}
              </Show>
              <div class="row">
                <button class={`button ${asked().grave ? "grave" : "main"}`} type="submit" disabled={busy() || (asked().typed !== undefined && typed() !== asked().typed)}>{asked().grave ? asked().label : t("act.confirm")}</button>
                <Dialog.CloseButton class="button" type="button" disabled={busy()} aria-label={t("form.cancel")}>{t("form.cancel")}</Dialog.CloseButton>
              </div>
            </form>
          </Dialog.Content>
        </div>
      </Dialog.Portal>
    </Dialog>
  );
}

/** Deletes an object after its name was typed. */
export function DeleteButton(props: { plural: string; name: string; namespace?: string; uid: string; text: string; after: string }) {
  const navigate = useNavigate();
  const stays = createNavigationCheck();
  // Copies of the props: the object may be gone, or replaced by one of the same name, before the request is sent or done.
  const act = (path: string, uid: string, after: string) => async () => {
    const isHere = stays();
    await remove(path, uid);
    if (isHere()) navigate(after);
  };
  return (
    <ConfirmButton grave label={t("act.delete")} title={t("act.delete.title", { name: props.name })} text={props.text} typed={props.name}
      act={act(pathOf(props.plural, props.name, props.namespace), props.uid, props.after)} />
  );
}

interface ActionWithReasonProps {
  label: string;
  path: string;
  title?: string;
  text?: string;
  grave?: boolean;
  typed?: string;
  /** Where to navigate afterwards. */
  after?: string;
}

/** An action of an operator, who must give a reason. */
export function ActionWithReason(props: ActionWithReasonProps) {
  const [reason, setReason] = createSignal("");
  const navigate = useNavigate();
  const stays = createNavigationCheck();
  const act = (path: string, after: string | undefined) => async () => {
    const isHere = stays();
    await request(path, { method: "POST", body: { reason: reason() } });
    setReason("");
    if (after && isHere()) navigate(after);
  };
  return (
    <ConfirmButton label={props.label} title={props.title ?? props.label} grave={props.grave ?? false} act={act(props.path, props.after)}
      {...(props.text ? { text: props.text } : {})} {...(props.typed ? { typed: props.typed } : {})}>
      <label class="field">
        <span>{t("act.reason")}</span>
        <input required value={reason()} onInput={(event) => setReason(event.currentTarget.value)} />
      </label>
    </ConfirmButton>
  );
}
