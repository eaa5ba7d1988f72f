import { createMemo, For, Show } from "solid-js";
import { amountOf, type QuantityText } from "../amounts/quantity";
import { request } from "../api/client";
import { clusters, pathOf } from "../api/collections";
import { conditionsOf } from "../api/conditions";
import type { MemberCluster } from "../api/types";
import type { Share } from "../budget/shares";
import { moment, t } from "../i18n/messages";
import { Confirmed, ReviewLink } from "../ui/acts";
import { Conditions, Head, Legend, Living, ShareRow } from "../ui/parts";

/** What there is to give, for operators. */
export function Clusters() {
  const all = clusters();
  // By name: a card, and a question that is open in it, outlive a change of the cluster.
  const named = createMemo(() => new Map([...all.objects().values()].map((cluster) => [cluster.metadata.name, cluster])));
  const names = () => [...named().keys()].sort((a, b) => a.localeCompare(b));
  return (
    <>
      <Head title={t("clusters.title")} />
      <Living states={[all.state()]}>
        <Legend />
        <div class="cards">
          <For each={names()} fallback={<p class="card empty">{t("clusters.none")}</p>}>
            {(name) => <Show when={named().get(name)}>{(cluster) => <Card cluster={cluster()} />}</Show>}
          </For>
        </div>
      </Living>
    </>
  );
}

/** What may be granted of it: what is said, and what follows from its nodes, which is nothing until it is known. */
function hardOf({ spec, status }: MemberCluster): Record<string, QuantityText> {
  const derived = Object.entries(spec?.derived?.resources ?? {}).map(([resource, { max }]) => {
    const amount = status?.capacity?.[resource] ?? "0";
    return [resource, max !== undefined && amountOf(max) < amountOf(amount) ? max : amount] as const;
  });
  return { ...spec?.hard, ...Object.fromEntries(derived) };
}

/** What is limited, granted or consumed of it. */
function shares(cluster: MemberCluster): Share[] {
  const hard = hardOf(cluster);
  const { granted = {}, consumed = {} } = cluster.status ?? {};
  const resources = new Set([hard, granted, consumed].flatMap((amounts) => Object.keys(amounts)));
  return [...resources].sort().map((resource) => ({
    cluster: cluster.metadata.name, resource, hard: resource in hard ? amountOf(hard[resource]) : undefined,
    allocated: amountOf(granted[resource]), used: amountOf(consumed[resource]),
  }));
}

function Card(props: { cluster: MemberCluster }) {
  const name = () => props.cluster.metadata.name;
  const cordoned = () => props.cluster.spec?.cordoned ?? false;
  const conditions = () => conditionsOf(props.cluster);
  const reachable = () => conditions().find((one) => one.type === "Reachable")?.status === "True";
  const cordon = (name: string, cordoned: boolean) => () => request(pathOf("memberclusters", name), { method: "PATCH", body: { spec: { cordoned } } });
  return (
    <section class="card" aria-label={name()}>
      <div class="head">
        <h2>{props.cluster.spec?.displayName || name()}</h2>
        <div class="row">
          <span class={`tag ${reachable() ? "good" : "urgent"}`}>{t("cluster.reachable")}: {reachable() ? "✓" : "✗"}</span>
          <Show when={cordoned()}><span class="tag noted">{t("cluster.cordoned")}</span></Show>
        </div>
      </div>
      <dl class="facts">
        <dt>{t("cluster.version")}</dt><dd>{props.cluster.status?.version ?? "–"}</dd>
        <dt>{t("cluster.namespaces")}</dt><dd class="number">{props.cluster.status?.namespaces ?? 0}</dd>
        <dt>{t("cluster.lease")}</dt><dd>{props.cluster.status?.lease ?? "–"}</dd>
      </dl>
      <For each={shares(props.cluster)}>{(share) => <ShareRow share={share} />}</For>
      <Show when={Object.keys(hardOf(props.cluster)).length === 0}><p class="quiet">{t("cluster.unlimited")}</p></Show>
      <Comparison cluster={props.cluster} />
      <Show when={conditions().some((one) => one.status !== "True")}>
        <Conditions all={conditions().filter((one) => one.status !== "True")} />
      </Show>
      <div class="row">
        <Confirmed label={t(cordoned() ? "cluster.uncordon" : "cluster.cordon")} text={t(cordoned() ? "cluster.uncordon.text" : "cluster.cordon.text")}
          title={`${t(cordoned() ? "cluster.uncordon" : "cluster.cordon")}: ${name()}`} act={cordon(name(), !cordoned())} />
        <ReviewLink plural="memberclusters" name={name()} />
      </div>
    </section>
  );
}

/** How far the audit has compared it: after a restore or a failover growth waits for each cluster that is in use. */
function Comparison(props: { cluster: MemberCluster }) {
  const told = () => props.cluster.status?.comparison;
  return (
    <Show when={told() && !told()?.missing} fallback={<p class="notice">{t("cluster.notcompared")} {told()?.missing}</p>}>
      <p class="quiet">
        {t("cluster.compared", { revision: told()?.revision ?? 0 })}
        <Show when={told()?.time}>{(time) => <span class="number">{" "}{moment(time())}</span>}</Show>
      </p>
      <Show when={told()?.unreported}>{(count) => <p class="notice">{t("cluster.unreported", { count: count() })}</p>}</Show>
    </Show>
  );
}
