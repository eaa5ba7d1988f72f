import { useLocation } from "@solidjs/router";
import { Show, createSignal, onCleanup } from "solid-js";
import { t } from "../i18n/messages";
import type { FeedState } from "../live/feed";
import { Problem, missing } from "./parts";

/** So long the watch has to tell of what was just made. */
const ARRIVAL_MS = 2_000;

/** What a form says of the place where it leads to. */
export const MADE = { state: { made: true } } as const;

/** What is not there; but whoever has just made it is asked to wait until the watch tells of it. */
export function Missing(props: { name: string }) {
  const location = useLocation<{ made: boolean }>();
  const [waits, setWaits] = createSignal(location.state?.made === true);
  const timer = setTimeout(() => setWaits(false), ARRIVAL_MS);
  onCleanup(() => clearTimeout(timer));
  return (
    <Show when={waits()} fallback={<Problem error={missing(props.name)} />}><p class="empty" role="status">{t("state.loading")}</p></Show>
  );
}

/** Why a field has nothing to choose from yet. */
export function FieldState(props: { state: FeedState }) {
  const why = () => {
    switch (props.state.at) {
      case "loading": return t("state.loading");
      case "refused": return props.state.error.message;
      case "unread": return t("state.unread", { why: props.state.why });
      case "cut": return props.state.why;
      case "live": return undefined;
    }
  };
  return <small role="status">{why() ?? ""}</small>;
}
