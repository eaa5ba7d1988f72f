import { For, Match, Show, Switch, createMemo, createSignal } from "solid-js";
import { moment, t } from "../i18n/messages";
import { type Happening, type Told, happenings } from "../live/recent";
import { ApiWords, conditionText } from "./parts";

const FIRST = 8;

/** What happened to an object, the newest first. */
export function Recent(props: { object: Told }) {
  const all = createMemo(() => happenings(props.object));
  const [whole, setWhole] = createSignal(false);
  return (
    <section class="card" aria-label={t("recent.title")}>
      <h2>{t("recent.title")}</h2>
      <ol class="timeline">
        <For each={whole() ? all() : all().slice(0, FIRST)}>
          {(one) => <li><time class="quiet number" datetime={one.when}>{moment(one.when)}</time><What happening={one} /></li>}
        </For>
      </ol>
      <Show when={!whole() && all().length > FIRST}>
        <div><button class="button" type="button" onClick={() => setWhole(true)}>{t("recent.all", { count: all().length })}</button></div>
      </Show>
    </section>
  );
}

function What(props: { happening: Happening }) {
  const as = <Is extends Happening["is"]>(is: Is) => (props.happening.is === is ? (props.happening as Extract<Happening, { is: Is }>) : undefined);
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
        {(told) => <span><strong>{conditionText(told().condition)}</strong>{" "}<ApiWords>{told().condition.message || told().condition.reason}</ApiWords></span>}
      </Match>
    </Switch>
  );
}
