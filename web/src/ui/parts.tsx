/** Small parts that all pages are made of. */

import { A } from "@solidjs/router";
import { For, Match, type ParentProps, Show, Switch } from "solid-js";
import { exact } from "../amounts/people";
import type { Amount } from "../amounts/quantity";
import { permille } from "../amounts/quantity";
import { gradeOf } from "../api/conditions";
import { ApiError } from "../api/status";
import type { Condition } from "../api/types";
import { NOTED, type Share, URGENT, fullness } from "../budget/shares";
import { moment, percent, t } from "../i18n/messages";
import type { FeedState } from "../live/feed";
import { said } from "./precision";

/** An amount as it is wanted; the exact one under the pointer, too. */
export function AmountText(props: { amount: Amount | undefined; resource: string }) {
  return (
    <Show when={props.amount !== undefined} fallback={<span class="quiet">{t("share.unlimited")}</span>}>
      <span class="number" title={exact(props.amount ?? 0n, props.resource)}>{said(props.amount ?? 0n, props.resource)}</span>
    </Show>
  );
}

const WIDTH = 1000;

/** Used, given away beyond that, and room: all bars have one scale, the limit. */
export function Bar(props: { share: Share; label?: string }) {
  const whole = () => props.share.hard ?? (props.share.allocated > 0n ? props.share.allocated : 1n);
  const part = (amount: Amount) => Math.min(WIDTH, permille(amount, whole()));
  return (
    <span class="bar" role="img" aria-label={props.label ?? describe(props.share)}>
      <svg viewBox={`0 0 ${WIDTH} 10`} preserveAspectRatio="none" aria-hidden="true">
        <rect class="given" width={part(props.share.allocated)} height="10" />
        <rect class="used" y="3" width={part(props.share.used)} height="7" />
      </svg>
    </span>
  );
}

/** What the parts of a bar are. */
export function Legend() {
  return (
    <p class="legend">
      <span><svg viewBox="0 0 26 10" aria-hidden="true"><rect class="used" y="3" width="26" height="7" /></svg>{t("share.used")}</span>
      <span><svg viewBox="0 0 26 10" aria-hidden="true"><rect class="given" width="26" height="10" /></svg>{t("share.given")}</span>
      <span><svg viewBox="0 0 26 10" aria-hidden="true" />{t("share.room")}</span>
      <span>! {t("share.noted")}</span>
      <span>!! {t("share.urgent")}</span>
    </p>
  );
}

export function describe(share: Share): string {
  const { cluster, resource, hard, allocated, used } = share;
  return t("share.text", {
    cluster, resource,
    hard: hard === undefined ? t("share.unlimited") : said(hard, resource),
    allocated: said(allocated, resource), used: said(used, resource),
  });
}

/** How full, marked by words as well as by colour. */
export function Fullness(props: { thousandths: number; unlimited?: boolean }) {
  const grade = () => (props.thousandths >= URGENT ? "urgent" : props.thousandths >= NOTED ? "noted" : "");
  return (
    <span class={`mark number ${grade()}`} title={grade() === "urgent" ? t("share.urgent") : grade() === "noted" ? t("share.noted") : ""}>
      <Show when={!props.unlimited} fallback="–">
        {percent(props.thousandths)}{grade() === "urgent" ? "!!" : grade() === "noted" ? "!" : ""}
      </Show>
    </span>
  );
}

/** A limit and what of it is given away, in a line. */
export function ShareRow(props: { share: Share }) {
  return (
    <div class="share">
      <span>{props.share.resource}</span>
      <Bar share={props.share} />
      <span class="number">
        <AmountText amount={props.share.allocated} resource={props.share.resource} />{" / "}
        <AmountText amount={props.share.hard} resource={props.share.resource} />
      </span>
      <Fullness thousandths={fullness(props.share)} unlimited={props.share.hard === undefined} />
    </div>
  );
}

/** The shares of one cluster after the other. */
export function Shares(props: { shares: readonly Share[] }) {
  const clusters = () => [...new Set(props.shares.map((share) => share.cluster))];
  return (
    <For each={clusters()}>
      {(cluster) => (
        <section class="card" aria-label={cluster}>
          <h2>{cluster}</h2>
          <For each={props.shares.filter((share) => share.cluster === cluster)}>
            {(share) => <ShareRow share={share} />}
          </For>
        </section>
      )}
    </For>
  );
}

/** What is wrong, in the API's own words. */
export function Problem(props: { error: unknown }) {
  const status = () => (props.error instanceof ApiError ? props.error : undefined);
  return (
    <div class="card empty" role="alert">
      <Switch fallback={<h2>{t("state.error")}</h2>}>
        <Match when={status()?.code === 403}><h2>{t("state.forbidden")}</h2></Match>
        <Match when={status()?.code === 404}><h2>{t("state.notfound")}</h2></Match>
      </Switch>
      <p>{props.error instanceof Error ? props.error.message : String(props.error)}</p>
      <A href="/">{t("state.back")}</A>
    </div>
  );
}

/** What is not among what one sees. */
export function missing(name: string): ApiError {
  return new ApiError({ kind: "Status", message: `${name}: ${t("state.notfound.text")}` }, 404);
}

/** What is shown, or why not; and that it is old, when it is. */
export function Living(props: ParentProps<{ states: FeedState[] }>) {
  const at = <At extends FeedState["at"]>(wanted: At) =>
    props.states.find((state) => state.at === wanted) as Extract<FeedState, { at: At }> | undefined;
  return (
    <Switch>
      <Match when={at("refused")}>{(refused) => <Problem error={refused().error} />}</Match>
      <Match when={at("loading")}><p class="empty" role="status">{t("state.loading")}</p></Match>
      <Match when={true}>
        <Show when={at("cut")}>
          {(cut) => <p class="notice" role="status">{t("state.cut", { time: moment(cut().since), why: cut().why })}</p>}
        </Show>
        {props.children}
      </Match>
    </Switch>
  );
}

/** Conditions in plain words: what is not as it should be comes first. */
export function Conditions(props: { all: readonly Condition[] | undefined }) {
  const ordered = () => [...(props.all ?? [])].sort((a, b) => Number(gradeOf(a) === "good") - Number(gradeOf(b) === "good"));
  return (
    <ul class="stairs">
      <For each={ordered()} fallback={<li class="quiet">{t("conditions.none")}</li>}>
        {(one) => (
          <li>
            <span class={`tag ${gradeOf(one)}`}>{one.type}: {one.status}</span>{" "}
            <span>{one.message || one.reason}</span>{" "}
            <Show when={one.lastTransitionTime}>{(time) => <span class="quiet number">{moment(time())}</span>}</Show>
          </li>
        )}
      </For>
    </ul>
  );
}

/** The head of a page. */
export function Head(props: ParentProps<{ title: string; under?: string }>) {
  document.title = `${props.title} · ${t("app.title")}`;
  return (
    <header class="head">
      <div>
        <h1>{props.title}</h1>
        <Show when={props.under}><p class="under">{props.under}</p></Show>
      </div>
      <div class="row">{props.children}</div>
    </header>
  );
}
