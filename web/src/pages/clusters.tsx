import { createMemo, For, Show } from "solid-js";
import { amountOf, type QuantityText } from "../amounts/quantity";
import { request } from "../api/client";
import { clusters, pathOf } from "../api/collections";
import { conditionsOf, gradeOf } from "../api/conditions";
import type { MemberCluster } from "../api/types";
import type { Share } from "../budget/shares";
import { formatDateTime, t } from "../i18n/messages";
import { ConfirmButton, ReviewLink } from "../ui/actions";
import { Conditions, FeedBoundary, Legend, PageHeader, ShareRow } from "../ui/parts";

/** The member clusters and their capacity, for operators. */
export function Clusters() {
  const all = clusters();
  // By name, so that a card and a dialog that is open in it survive a change of the cluster.
  const named = createMemo(() => new Map([...all.objects().values()].map((cluster) => [cluster.metadata.name, cluster])));
  const names = () => [...named().keys()].sort((a, b) => a.localeCompare(b));
  return (
    <>
      <PageHeader title={t("clusters.title")} />
      <FeedBoundary states={[all.state()]}>
        <Legend />
        <div class="cards">
          <For each={names()} fallback={<p class="card empty">{t("clusters.none")}</p>}>
            {(name) => <Show when={named().get(name)}>{(cluster) => <Card cluster={cluster()} />}</Show>}
          </For>
        </div>
      </FeedBoundary>
    </>
  );
}

/** What may be granted of a cluster: the limits in its spec, and those derived from its nodes, which are 0 until they are known. */
function hardOf({ spec, status }: MemberCluster): Record<string, QuantityText> {
  const derived = Object.entries(spec?.derived?.resources ?? {}).map(([resource, { max }]) => {
    const amount = status?.capacity?.[resource] ?? "0";
    return [resource, max !== undefined && amountOf(max) < amountOf(amount) ? max : amount] as const;
  });
  return { ...spec?.hard, ...Object.fromEntries(derived) };
}

/** Every resource of a cluster that is limited, granted or consumed. */
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
  // Not all that are not True: a cluster that is being deleted has Terminating, which is.
  const problems = () => conditions().filter((one) => gradeOf(one) !== "good");
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
      <Show when={problems().length > 0}><Conditions all={problems()} /></Show>
      <div class="row">
        <ConfirmButton label={t(cordoned() ? "cluster.uncordon" : "cluster.cordon")} text={t(cordoned() ? "cluster.uncordon.text" : "cluster.cordon.text")}
          title={`${t(cordoned() ? "cluster.uncordon" : "cluster.cordon")}: ${name()}`} act={cordon(name(), !cordoned())} />
        <ReviewLink plural="memberclusters" name={name()} />
      </div>
    </section>
  );
}

/** How far the audit has compared the cluster: after a restore or a failover, growth is held until every cluster in use is compared. */
function Comparison(props: { cluster: MemberCluster }) {
  const comparison = () => props.cluster.status?.comparison;
  return (
    <Show when={comparison() && !comparison()?.missing} fallback={<p class="notice">{t("cluster.notcompared")} {comparison()?.missing}</p>}>
      <p class="quiet">
        {t("cluster.compared", { revision: comparison()?.revision ?? 0 })}
        <Show when={comparison()?.time}>{(time) => <span class="number">{" "}{formatDateTime(time())}</span>}</Show>
      </p>
      <Show when={comparison()?.unreported}>{(count) => <p class="notice">{t("cluster.unreported", { count: count() })}</p>}</Show>
    </Show>
  );
}
