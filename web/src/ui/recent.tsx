import { For, Match, Show, Switch, createMemo, createSignal } from "solid-js";
import { formatDateTime, t } from "../i18n/messages";
import { type ObjectWithConditions, type RecentChange, recentChanges } from "../live/recent";
import { ApiText, conditionText } from "./parts";

const FIRST = 8;

/** The recent changes of an object, newest first. */
export function RecentChanges(props: { object: ObjectWithConditions }) {
  const all = createMemo(() => recentChanges(props.object));
  const [whole, setWhole] = createSignal(false);
  return (
    <section class="card" aria-label={t("recent.title")}>
      <h2>{t("recent.title")}</h2>
      <ol class="timeline">
        <For each={whole() ? all() : all().slice(0, FIRST)}>
          {(one) => <li><time class="quiet number" datetime={one.when}>{formatDateTime(one.when)}</time><ChangeText change={one} /></li>}
        </For>
      </ol>
      <Show when={!whole() && all().length > FIRST}>
        <div><button class="button" type="button" onClick={() => setWhole(true)}>{t("recent.all", { count: all().length })}</button></div>
      </Show>
    </section>
  );
}

function ChangeText(props: { change: RecentChange }) {
  const as = <Is extends RecentChange["is"]>(is: Is) => (props.change.is === is ? (props.change as Extract<RecentChange, { is: Is }>) : undefined);
  return (
    <Switch>
      <Match when={as("created")}><span>{t("recent.created")}</span></Match>
      <Match when={as("deleted")}><span>{t("recent.deleted")}</span></Match>
      <Match when={as("written")}>
        {(written) => (
          <span>
            {t("recent.written", { manager: written().manager })}{" "}
            <Show when={written().parts.length > 0}><code>{written().parts.join(", ")}</code></Show>
          </span>
        )}
      </Match>
      <Match when={as("condition")}>
        {(change) => <span><strong>{conditionText(change().condition)}</strong>{" "}<ApiText>{change().condition.message || change().condition.reason}</ApiText></span>}
      </Match>
    </Switch>
  );
}
