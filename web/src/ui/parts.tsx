/** Small components that all pages use. */

import { A } from "@solidjs/router";
import { For, type JSX, Match, type ParentProps, type Resource, Show, Switch, batch, createEffect, createSignal, onCleanup, onMount } from "solid-js";
import { Dynamic } from "solid-js/web";
import { formatExact } from "../amounts/format";
import type { Amount } from "../amounts/quantity";
import { permille } from "../amounts/quantity";
import { gradeOf } from "../api/conditions";
import type { OfflineState } from "../api/session";
import { ApiError, messageOf } from "../api/status";
import type { Condition } from "../api/types";
import type { RefusalBarLengths } from "../budget/refusal";
import { NOTED, type Share, URGENT, fullness } from "../budget/shares";
import { formatDateTime, messageOr, percent, t } from "../i18n/messages";
import type { FeedState } from "../live/feed";
import { formatAmount } from "./precision";
import { createTitle } from "./title";

/** An amount in the chosen precision, with the exact one as tooltip. */
export function AmountText(props: { amount: Amount | undefined; resource: string }) {
  return (
    <Show when={props.amount !== undefined} fallback={<span class="quiet">{t("share.unlimited")}</span>}>
      <span class="number" title={formatExact(props.amount ?? 0n, props.resource)}>{formatAmount(props.amount ?? 0n, props.resource)}</span>
    </Show>
  );
}

const WIDTH = 1000;

/** A bar of what is used and allocated; its length is the limit. Empty without a limit. */
export function Bar(props: { share: Share }) {
  const part = (amount: Amount) => Math.min(WIDTH, permille(amount, props.share.hard ?? 0n));
  return (
    <span class="bar" classList={{ unlimited: props.share.hard === undefined }} role="img" aria-label={describe(props.share)}>
      <Show when={props.share.hard !== undefined}>
        <svg viewBox={`0 0 ${WIDTH} 10`} preserveAspectRatio="none" aria-hidden="true">
          <rect class="given" width={part(props.share.allocated)} height="10" />
          <rect class="used" y="3" width={part(props.share.used ?? 0n)} height="7" />
        </svg>
      </Show>
    </span>
  );
}

/** The bar of a refusal: what is allocated and what was requested. A line marks the limit; the part beyond it is hatched. */
export function RefusedBar(props: { lengths: RefusalBarLengths; label: string }) {
  const part = (amount: Amount) => permille(amount, props.lengths.whole) / 10;
  const from = (start: () => Amount, end: () => Amount) => (element: HTMLSpanElement) =>
    createEffect(() => {
      element.style.left = `${part(start())}%`;
      element.style.width = `${Math.max(0, part(end()) - part(start()))}%`;
    });
  const { given, asked, limit } = {
    given: () => props.lengths.given, asked: () => props.lengths.asked, limit: () => props.lengths.limit,
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

/** The legend of the bar of a refusal. */
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

/** The legend of a bar. */
export function Legend() {
  return (
    <p class="legend">
      <span><svg viewBox="0 0 26 10" aria-hidden="true"><rect class="used" y="3" width="26" height="7" /></svg>{t("share.used")}</span>
      <span><svg viewBox="0 0 26 10" aria-hidden="true"><rect class="given" width="26" height="10" /></svg>{t("share.given")}</span>
      <span><svg viewBox="0 0 26 10" aria-hidden="true" />{t("share.room")}</span>
      <MarkLegendText />
    </p>
  );
}

/** The legend of the marks, where there are no bars. */
export function MarkLegend() {
  return <p class="legend"><MarkLegendText /></p>;
}

function MarkLegendText() {
  return <><span>! {t("share.noted")}</span><span>!! {t("share.urgent")}</span></>;
}

export function describe(share: Share): string {
  const { cluster, resource, hard, allocated, used } = share;
  const given = {
    cluster, resource,
    hard: hard === undefined ? t("share.unlimited") : formatAmount(hard, resource),
    allocated: formatAmount(allocated, resource),
  };
  return used === undefined ? t("share.text.given", given) : t("share.text", { ...given, used: formatAmount(used, resource) });
}

/** What is used, and what is allocated of the limit. */
export function AmountsText(props: { share: Share }) {
  const text = (say: (amount: Amount, resource: string) => string) => {
    const { resource, hard, allocated, used } = props.share;
    return {
      used: used === undefined ? undefined : t("share.amounts.used", { amount: say(used, resource) }),
      given: hard === undefined
        ? t("share.amounts.unlimited", { amount: say(allocated, resource) })
        : t("share.amounts.given", { amount: say(allocated, resource), hard: say(hard, resource) }),
    };
  };
  return (
    <span class="told">
      <Show when={text(formatAmount).used}>{(used) => <><span class="number" title={text(formatExact).used}>{used()}</span>{" · "}</>}</Show>
      <span class="number" title={text(formatExact).given}>{text(formatAmount).given}</span>
    </span>
  );
}

/** The fullness in percent, marked by text as well as by colour. */
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

/** A limit, and what of it is used and allocated. */
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

/** The shares, with a card for each cluster. */
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

/** Text of the API, which is English in every language of the page. */
export function ApiText(props: { children: string | undefined }) {
  return <span lang="en">{props.children}</span>;
}

/** Why the user cannot go on: the server is offline, or refuses. */
export function OfflineText(props: { away: OfflineState }) {
  return <>{t(props.away.refused ? "state.refused" : "state.offline")}{" "}<ApiText>{props.away.why}</ApiText></>;
}

/** Warnings of the server about a request that it accepts. */
export function Warnings(props: { texts: readonly string[] }) {
  return <For each={props.texts}>{(text) => <p class="notice">{t("state.warning")}{" "}<ApiText>{text}</ApiText></p>}</For>;
}

/** The message of an error, marked as English if it comes from the API. */
export function ErrorText(props: { error: unknown }) {
  const text = () => messageOf(props.error);
  return (
    <Show when={props.error instanceof ApiError && !(props.error instanceof NotFoundError)} fallback={text()}>
      <ApiText>{text()}</ApiText>
    </Show>
  );
}

/** An error with a title, and buttons as children. */
export function ErrorCard(props: ParentProps<{ error: unknown }>) {
  const status = () => (props.error instanceof ApiError ? props.error : undefined);
  const title = () => t(status()?.code === 403 ? "state.forbidden" : status()?.code === 404 ? "state.notfound" : "state.error");
  createTitle(title);
  return (
    <div class="card empty" role="alert">
      <Dynamic component={headerCount() > 0 ? "h2" : "h1"}>{title()}</Dynamic>
      <p><ErrorText error={props.error} /></p>
      {props.children}
      <A href="/">{t("state.back")}</A>
    </div>
  );
}

/** A button that tries again. */
export function RetryButton(props: { retry: () => void }) {
  return <button class="button" type="button" onClick={() => props.retry()}>{t("state.again")}</button>;
}

/** A 404 of the page itself; its text is in the language of the page, unlike that of the API. */
class NotFoundError extends ApiError {}

/** The object is not among those that the user sees. */
export function notFoundError(name: string): ApiError {
  return new NotFoundError({ kind: "Status", message: `${name}: ${t("state.notfound.text")}` }, 404);
}

/** Shows a resource when it is loaded, or its error. */
export function ResourceBoundary<Found>(props: { of: Resource<Found>; retry: () => unknown; children: (found: () => NonNullable<Found>) => JSX.Element }) {
  return (
    <Show when={props.of.error === undefined} fallback={<ErrorCard error={props.of.error}><RetryButton retry={() => void props.retry()} /></ErrorCard>}>
      <Show when={props.of()} fallback={<p class="empty" role="status">{t("state.loading")}</p>}>
        {(found) => props.children(found)}
      </Show>
    </Show>
  );
}

/** Shows the children once all feeds were read, with a notice if they are out of date; or why they cannot be shown. */
export function FeedBoundary(props: ParentProps<{ states: FeedState[] }>) {
  const at = <At extends FeedState["at"]>(wanted: At) =>
    props.states.find((state) => state.at === wanted) as Extract<FeedState, { at: At }> | undefined;
  const retry = () => batch(() => {
    for (const state of props.states) if (state.at === "refused") state.retry();
  });
  return (
    <Switch>
      <Match when={at("refused")}>{(refused) => <ErrorCard error={refused().error}><RetryButton retry={retry} /></ErrorCard>}</Match>
      <Match when={at("unread")}>{(unread) => <p class="notice" role="status">{t("state.unread", { why: unread().why })}</p>}</Match>
      <Match when={at("loading")}><p class="empty" role="status">{t("state.loading")}</p></Match>
      <Match when={true}>
        <Show when={at("cut")}>
          {(cut) => <p class="notice" role="status">{t("state.cut", { time: formatDateTime(cut().since), why: cut().why })}</p>}
        </Show>
        {props.children}
      </Match>
    </Switch>
  );
}

/** The text of a condition; type and status for one without a message. */
export function conditionText({ type, status }: Condition): string {
  return messageOr(`condition.${type}.${status}`, `${type}: ${status}`);
}

/** The text of the phase of a project or a namespace. */
export function phaseText(phase: string | undefined): string {
  return messageOr(`phase.${phase}`, phase ?? "");
}

/** The text of a condition, with the message of the API. */
export function ConditionLine(props: { one: Condition }) {
  const isGood = () => gradeOf(props.one) === "good";
  return (
    <>
      <span class={`tag words ${gradeOf(props.one)}`}>{conditionText(props.one)}</span>
      <Show when={props.one.message || (!isGood() && props.one.reason)}>{(text) => <>{" "}<ApiText>{text()}</ApiText></>}</Show>
    </>
  );
}

/** Conditions as text and as in the API; those that are not good come first. */
export function Conditions(props: { all: readonly Condition[] }) {
  const ordered = () => [...props.all].sort((a, b) => Number(gradeOf(a) === "good") - Number(gradeOf(b) === "good"));
  return (
    <ul class="stairs">
      <For each={ordered()} fallback={<li class="quiet">{t("conditions.none")}</li>}>
        {(one) => (
          <li>
            <ConditionLine one={one} />{" "}
            <span class="quiet">
              <code lang="en">{one.type}={one.status}{one.reason && one.reason !== one.type ? ` (${one.reason})` : ""}</code>
              <Show when={one.lastTransitionTime}>{(time) => <>{" "}<span class="number">· {formatDateTime(time())}</span></>}</Show>
            </span>
          </li>
        )}
      </For>
    </ul>
  );
}

/** The number of mounted headers: without one, an error card has the h1 of the page. */
const [headerCount, setHeaderCount] = createSignal(0);

/** The header of a page. */
export function PageHeader(props: ParentProps<{ title: string; under?: string }>) {
  createTitle(() => props.title);
  onMount(() => setHeaderCount((count) => count + 1));
  onCleanup(() => setHeaderCount((count) => count - 1));
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
