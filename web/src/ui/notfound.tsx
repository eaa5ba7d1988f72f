import { useLocation } from "@solidjs/router";
import { Show, createSignal, onCleanup } from "solid-js";
import { t } from "../i18n/messages";
import type { FeedState } from "../live/feed";
import { ErrorCard, notFoundError } from "./parts";

/** How long the watch may take to deliver an object that was just created. */
const ARRIVAL_MS = 2_000;

/** Options of the navigation to an object that a form has just created. */
export const JUST_CREATED = { state: { made: true } } as const;

/** The object does not exist. If it was just created, waits first for the watch to deliver it. */
export function NotFound(props: { name: string }) {
  const location = useLocation<{ made: boolean }>();
  const [waits, setWaits] = createSignal(location.state?.made === true);
  const timer = setTimeout(() => setWaits(false), ARRIVAL_MS);
  onCleanup(() => clearTimeout(timer));
  return (
    <Show when={waits()} fallback={<ErrorCard error={notFoundError(props.name)} />}><p class="empty" role="status">{t("state.loading")}</p></Show>
  );
}

/** Why there is nothing of a collection yet, or nothing new. */
export function whyNotRead(state: FeedState): string | undefined {
  switch (state.at) {
    case "loading": return t("state.loading");
    case "refused": return state.error.message;
    case "unread": return t("state.unread", { why: state.why });
    case "cut": return state.why;
    case "live": return undefined;
  }
}

/** Why a field has no options yet. */
export function FieldState(props: { state: FeedState }) {
  return <small role="status">{whyNotRead(props.state) ?? ""}</small>;
}
