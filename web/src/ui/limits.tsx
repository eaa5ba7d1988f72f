/** Fields for the limits of each cluster. */

import { For, Show, createMemo, createUniqueId } from "solid-js";
import { formatExact } from "../amounts/format";
import { parseAmount } from "../amounts/quantity";
import { GROUP } from "../api/client";
import { projects } from "../api/collections";
import { type Limits, isEmptied } from "../budget/edits";
import { type BudgetSource, remainingIn } from "../budget/remaining";
import { type AmountRow, type ClusterLimits, emptyLimits, freeClusters, isDuplicate } from "../budget/form";
import { compareNames } from "../budget/shares";
import { t } from "../i18n/messages";
import { mayYetBeRead } from "../live/states";
import { type Names, createNames } from "./lookup";
import { whyNotRead } from "./notfound";

const COMMON = ["requests.cpu", "requests.memory", "limits.cpu", "limits.memory", "requests.storage", "pods"];

/**
 * The clusters of the parent, or all that are offered. None before the parent was read: one that it does not have would be chosen. Without
 * `registry` for a namespace, which cannot be there.
 */
export function clusterChoices(parent: () => string, withRegistry: () => boolean): Names {
  const all = projects();
  const offers = createNames(`${GROUP}/clusteroffers`);
  const above = () => all.objects().get(parent());
  const isUnread = () => parent() !== "" && !above() && mayYetBeRead(all.state());
  const names = () => {
    if (isUnread()) return [];
    const project = above();
    const known = project ? Object.keys(project.spec?.clusters ?? {}) : offers.names();
    return known.filter((name) => withRegistry() || name !== "registry").sort(compareNames);
  };
  return { names, why: () => (above() ? "" : isUnread() ? (whyNotRead(all.state()) ?? "") : offers.why()) };
}

/** What a project or a tenant has left, as text. Exact, since a rounded amount would be less than what fits. */
export function remainingText(key: "form.left" | "form.most", source: BudgetSource | undefined, cluster: string, resource: string, own?: Limits): string | undefined {
  const left = remainingIn(source, cluster, resource, own);
  return left === undefined ? undefined : t(key, { amount: formatExact(left, resource), project: source?.metadata.name ?? "" });
}

interface LimitsFieldsProps {
  limits: readonly ClusterLimits[];
  choices: readonly string[];
  /** Why clusters may be missing among the choices. */
  why?: string | undefined;
  isSeveral: boolean;
  set: (limits: readonly ClusterLimits[]) => void;
  /** The limits that are changed. */
  before?: Limits;
  /** The text that says how much is left, if that is known. */
  left?: ((cluster: string, resource: string) => string | undefined) | undefined;
}

export function LimitsFields(props: LimitsFieldsProps) {
  const put = (at: number, change: Partial<ClusterLimits>) =>
    props.set(props.limits.map((entry, index) => (index === at ? { ...entry, ...change } : entry)));
  // A memo of a set, since each entry asks it for each cluster at each key that is pressed.
  const free = createMemo(() => new Set(freeClusters(props.choices, props.limits)));
  return (
    <>
      <For each={props.limits.map((_, index) => index)}>
        {(index) => {
          const entry = () => props.limits[index] ?? emptyLimits("");
          const others = () => props.choices.filter((name) => name !== entry().cluster && free().has(name));
          // Its own stays among them when it is offered no more: the browser would show another one than is sent.
          const names = () => [entry().cluster, ...others()].filter((name) => name !== "").sort(compareNames);
          return (
            <fieldset class="limits" aria-label={entry().cluster}>
              <div class="limits-head">
                <label class="field">
                  <span>{t("form.cluster")}</span>
                  <select required value={entry().cluster} onChange={(event) => put(index, { cluster: event.currentTarget.value })}>
                    <For each={names()}>{(name) => <option value={name} selected={name === entry().cluster}>{name}</option>}</For>
                  </select>
                </label>
                <Show when={props.isSeveral && props.limits.length > 1}>
                  <button class="button" type="button" aria-label={t("form.cluster.remove", { cluster: entry().cluster })}
                    onClick={() => props.set(props.limits.filter((_, at) => at !== index))}>−</button>
                </Show>
              </div>
              <Amounts rows={entry().amounts} set={(amounts) => put(index, { amounts })} left={(resource) => props.left?.(entry().cluster, resource)}
                isEmptied={(at) => isEmptied(props.before ?? {}, entry(), at)} />
            </fieldset>
          );
        }}
      </For>
      <Show when={props.why}><small class="quiet" role="status">{props.why}</small></Show>
      <datalist id="resources"><For each={COMMON}>{(name) => <option value={name} />}</For></datalist>
      <Show when={props.isSeveral && free().size > 0}>
        <div><button class="button" type="button" onClick={() => props.set([...props.limits, emptyLimits([...free()][0] ?? "")])}>{t("form.cluster.add")}</button></div>
      </Show>
    </>
  );
}

interface AmountsProps {
  rows: readonly AmountRow[];
  set: (rows: AmountRow[]) => void;
  left: (resource: string) => string | undefined;
  isEmptied: (at: number) => boolean;
}

function Amounts(props: AmountsProps) {
  const put = (index: number, row: Partial<AmountRow>) => props.set(props.rows.map((old, at) => (at === index ? { ...old, ...row, isOffered: false } : old)));
  return (
    <fieldset class="amounts">
      <legend>{t("form.amounts")}</legend>
      <For each={props.rows.map((_, index) => index)}>
        {(index) => {
          const row = () => props.rows[index] ?? { resource: "", amount: "" };
          const isWrong = () => row().amount !== "" && parseAmount(row().amount) === undefined;
          const wrong = () => (isWrong() ? t("form.amount.invalid") : props.isEmptied(index) ? t("form.amount.emptied") : undefined);
          const isTwice = () => isDuplicate(props.rows, index);
          const [why, whyTwice] = [createUniqueId(), createUniqueId()];
          return (
            <div class="amount">
              <input aria-label={t("form.resource")} list="resources" value={row().resource}
                aria-invalid={isTwice()} aria-describedby={isTwice() ? whyTwice : undefined}
                onInput={(event) => put(index, { resource: event.currentTarget.value })} />
              <input aria-label={t("form.amount.of", { resource: row().resource })} value={row().amount} autocomplete="off"
                aria-invalid={wrong() !== undefined} aria-describedby={wrong() === undefined ? undefined : why}
                onInput={(event) => put(index, { amount: event.currentTarget.value })} />
              <button class="button" type="button" aria-label={t("form.amount.remove", { resource: row().resource })}
                onClick={() => props.set(props.rows.filter((_, at) => at !== index))}>−</button>
              <Show when={props.left(row().resource)}>{(left) => <small class="quiet">{left()}</small>}</Show>
              <Show when={isTwice()}><small class="wrong" id={whyTwice}>{t("form.resource.twice")}</small></Show>
              <Show when={wrong()}>{(text) => <small class="wrong" id={why}>{text()}</small>}</Show>
            </div>
          );
        }}
      </For>
      <div><button class="button" type="button" onClick={() => props.set([...props.rows, { resource: "", amount: "" }])}>{t("form.amounts.add")}</button></div>
    </fieldset>
  );
}
