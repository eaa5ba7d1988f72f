/** Small parts that all pages are made of. */

import { A } from "@solidjs/router";
import { For, type JSX, Match, type ParentProps, type Resource, Show, Switch, batch, createEffect, createSignal, onCleanup, onMount } from "solid-js";
import { Dynamic } from "solid-js/web";
import { exact } from "../amounts/people";
import type { Amount } from "../amounts/quantity";
import { permille } from "../amounts/quantity";
import { gradeOf } from "../api/conditions";
import type { Away } from "../api/session";
import { ApiError, messageOf } from "../api/status";
import type { Condition } from "../api/types";
import type { RefusedPicture } from "../budget/refused";
import { NOTED, type Share, URGENT, fullness } from "../budget/shares";
import { messageOr, moment, percent, t } from "../i18n/messages";
import type { FeedState } from "../live/feed";
import { said } from "./precision";
import { entitle } from "./title";

/** An amount as it is wanted; the exact one under the pointer, too. */
export function AmountText(props: { amount: Amount | undefined; resource: string }) {
  return (
    <Show when={props.amount !== undefined} fallback={<span class="quiet">{t("share.unlimited")}</span>}>
      <span class="number" title={exact(props.amount ?? 0n, props.resource)}>{said(props.amount ?? 0n, props.resource)}</span>
    </Show>
  );
}

const WIDTH = 1000;

/** Used, given away beyond that, and room: all bars have one scale, the limit. Without one there is nothing to be a part of. */
export function Bar(props: { share: Share }) {
  const part = (amount: Amount) => Math.min(WIDTH, permille(amount, props.share.hard ?? 0n));
  return (
    <span class="bar" classList={{ unlimited: props.share.hard === undefined }} role="img" aria-label={describe(props.share)}>
      <Show when={props.share.hard !== undefined}>
        <svg viewBox={`0 0 ${WIDTH} 10`} preserveAspectRatio="none" aria-hidden="true">
          <rect class="given" width={part(props.share.allocated)} height="10" />
          <rect class="used" y="3" width={part(props.share.used)} height="7" />
        </svg>
      </Show>
    </span>
  );
}

/** What was asked for beside what is given, as far as it goes: a line is the limit, and what lies beyond is hatched. */
export function RefusedBar(props: { picture: RefusedPicture; label: string }) {
  const part = (amount: Amount) => permille(amount, props.picture.whole) / 10;
  const from = (start: () => Amount, end: () => Amount) => (element: HTMLSpanElement) =>
    createEffect(() => {
      element.style.left = `${part(start())}%`;
      element.style.width = `${Math.max(0, part(end()) - part(start()))}%`;
    });
  const { given, asked, limit } = {
    given: () => props.picture.given, asked: () => props.picture.asked, limit: () => props.picture.limit,
  };
  return (
    <span class="bar refused" role="img" aria-label={props.label}>
      <span class="given" ref={from(() => 0n, given)} />
      <span class="asked" ref={from(given, asked)} />
      <span class="over" ref={from(limit, asked)} />
      <span class="line" ref={from(limit, limit)} />
    </span>
  );
}

/** What the parts of such a bar are. */
export function RefusedLegend() {
  return (
    <p class="legend">
      <span><i class="bar refused"><i class="given" /></i>{t("share.given")}</span>
      <span><i class="bar refused"><i class="asked" /></i>{t("refusal.asked")}</span>
      <span><i class="bar refused"><i class="asked" /><i class="over" /></i>{t("refusal.over")}</span>
      <span><i class="bar refused"><i class="line" /></i>{t("refusal.limit")}</span>
    </p>
  );
}

/** What the parts of a bar are. */
export function Legend() {
  return (
    <p class="legend">
      <span><svg viewBox="0 0 26 10" aria-hidden="true"><rect class="used" y="3" width="26" height="7" /></svg>{t("share.used")}</span>
      <span><svg viewBox="0 0 26 10" aria-hidden="true"><rect class="given" width="26" height="10" /></svg>{t("share.given")}</span>
      <span><svg viewBox="0 0 26 10" aria-hidden="true" />{t("share.room")}</span>
      <MarkWords />
    </p>
  );
}

/** What the marks of a share are, where there are no bars. */
export function MarkLegend() {
  return <p class="legend"><MarkWords /></p>;
}

function MarkWords() {
  return <><span>! {t("share.noted")}</span><span>!! {t("share.urgent")}</span></>;
}

export function describe(share: Share): string {
  const { cluster, resource, hard, allocated, used } = share;
  return t("share.text", {
    cluster, resource,
    hard: hard === undefined ? t("share.unlimited") : said(hard, resource),
    allocated: said(allocated, resource), used: said(used, resource),
  });
}

/** What is used, and what is given of what. */
export function AmountsText(props: { share: Share }) {
  const text = (say: (amount: Amount, resource: string) => string) => {
    const { resource, hard, allocated, used } = props.share;
    return {
      used: t("share.amounts.used", { amount: say(used, resource) }),
      given: hard === undefined
        ? t("share.amounts.unlimited", { amount: say(allocated, resource) })
        : t("share.amounts.given", { amount: say(allocated, resource), hard: say(hard, resource) }),
    };
  };
  return (
    <span class="told">
      <span class="number" title={text(exact).used}>{text(said).used}</span>{" · "}
      <span class="number" title={text(exact).given}>{text(said).given}</span>
    </span>
  );
}

/** How full, marked by words as well as by colour. */
export function Fullness(props: { thousandths: number; unlimited?: boolean; id?: string }) {
  const grade = () => (props.unlimited ? "" : props.thousandths >= URGENT ? "urgent" : props.thousandths >= NOTED ? "noted" : "");
  const text = () => `${percent(props.thousandths)}${grade() === "urgent" ? "!!" : grade() === "noted" ? "!" : ""}`;
  return (
    <span class={`mark number ${grade()}`} id={props.id}>
      <span>{props.unlimited ? "–" : text()}</span>
      <Show when={grade()}>{(is) => <span class="hidden">{" "}{t(is() === "urgent" ? "share.urgent" : "share.noted")}</span>}</Show>
    </span>
  );
}

/** A limit, and what of it is used and given away. */
export function ShareRow(props: { share: Share }) {
  return (
    <div class="share">
      <span>{props.share.resource}</span>
      <Bar share={props.share} />
      <AmountsText share={props.share} />
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

/** What the API says is English, whatever language the page is in. */
export function ApiWords(props: { children: string | undefined }) {
  return <span lang="en">{props.children}</span>;
}

/** Why nobody is let go on: the server is away, or says no. */
export function AwayText(props: { away: Away }) {
  return <>{t(props.away.refused ? "state.refused" : "state.offline")}{" "}<ApiWords>{props.away.why}</ApiWords></>;
}

/** What the server warns of, though it has done what it was asked for, or would do it. */
export function Warnings(props: { texts: readonly string[] }) {
  return <For each={props.texts}>{(text) => <p class="notice">{t("state.warning")}{" "}<ApiWords>{text}</ApiWords></p>}</For>;
}

/** What went wrong: in the API's own words where they are its own. */
export function ErrorText(props: { error: unknown }) {
  const text = () => messageOf(props.error);
  return (
    <Show when={props.error instanceof ApiError && !(props.error instanceof Missing)} fallback={text()}>
      <ApiWords>{text()}</ApiWords>
    </Show>
  );
}

/** What is wrong, in the API's own words; and what may be done about it. */
export function Problem(props: ParentProps<{ error: unknown }>) {
  const status = () => (props.error instanceof ApiError ? props.error : undefined);
  const title = () => t(status()?.code === 403 ? "state.forbidden" : status()?.code === 404 ? "state.notfound" : "state.error");
  entitle(title);
  return (
    <div class="card empty" role="alert">
      <Dynamic component={heads() > 0 ? "h2" : "h1"}>{title()}</Dynamic>
      <p><ErrorText error={props.error} /></p>
      {props.children}
      <A href="/">{t("state.back")}</A>
    </div>
  );
}

/** For what may work the next time. */
export function AgainButton(props: { again: () => void }) {
  return <button class="button" type="button" onClick={() => props.again()}>{t("state.again")}</button>;
}

/** The page's own words, unlike those of the API. */
class Missing extends ApiError {}

/** What is not among what one sees. */
export function missing(name: string): ApiError {
  return new Missing({ kind: "Status", message: `${name}: ${t("state.notfound.text")}` }, 404);
}

/** What is read once, or why it is not. */
export function Loaded<Found>(props: { of: Resource<Found>; again: () => unknown; children: (found: () => NonNullable<Found>) => JSX.Element }) {
  return (
    <Show when={props.of.error === undefined} fallback={<Problem error={props.of.error}><AgainButton again={() => void props.again()} /></Problem>}>
      <Show when={props.of()} fallback={<p class="empty" role="status">{t("state.loading")}</p>}>
        {(found) => props.children(found)}
      </Show>
    </Show>
  );
}

/** What is shown, or why not; and that it is old, when it is. */
export function Living(props: ParentProps<{ states: FeedState[] }>) {
  const at = <At extends FeedState["at"]>(wanted: At) =>
    props.states.find((state) => state.at === wanted) as Extract<FeedState, { at: At }> | undefined;
  const again = () => batch(() => {
    for (const state of props.states) if (state.at === "refused") state.again();
  });
  return (
    <Switch>
      <Match when={at("refused")}>{(refused) => <Problem error={refused().error}><AgainButton again={again} /></Problem>}</Match>
      <Match when={at("unread")}>{(unread) => <p class="notice" role="status">{t("state.unread", { why: unread().why })}</p>}</Match>
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

/** A condition in plain words; one that has none, as the API has it. */
export function conditionText({ type, status }: Condition): string {
  return messageOr(`condition.${type}.${status}`, `${type}: ${status}`);
}

/** The phase of a project or a namespace. */
export function phaseText(phase: string | undefined): string {
  return messageOr(`phase.${phase}`, phase ?? "");
}

/** A condition in plain words, and what the API says of it. */
export function ConditionWords(props: { one: Condition }) {
  const isGood = () => gradeOf(props.one) === "good";
  return (
    <>
      <span class={`tag words ${gradeOf(props.one)}`}>{conditionText(props.one)}</span>
      <Show when={props.one.message || (!isGood() && props.one.reason)}>{(said) => <>{" "}<ApiWords>{said()}</ApiWords></>}</Show>
    </>
  );
}

/** Conditions in plain words, and as the API has them: what is not as it should be comes first. */
export function Conditions(props: { all: readonly Condition[] }) {
  const ordered = () => [...props.all].sort((a, b) => Number(gradeOf(a) === "good") - Number(gradeOf(b) === "good"));
  return (
    <ul class="stairs">
      <For each={ordered()} fallback={<li class="quiet">{t("conditions.none")}</li>}>
        {(one) => (
          <li>
            <ConditionWords one={one} />{" "}
            <span class="quiet">
              <code lang="en">{one.type}={one.status}{one.reason && one.reason !== one.type ? ` (${one.reason})` : ""}</code>
              <Show when={one.lastTransitionTime}>{(time) => <>{" "}<span class="number">· {moment(time())}</span></>}</Show>
            </span>
          </li>
        )}
      </For>
    </ul>
  );
}

/** Heads that are shown: without one, whatever stands in a page's place is its heading. */
const [heads, setHeads] = createSignal(0);

/** The head of a page. */
export function Head(props: ParentProps<{ title: string; under?: string }>) {
  entitle(() => props.title);
  onMount(() => setHeads((count) => count + 1));
  onCleanup(() => setHeads((count) => count - 1));
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
