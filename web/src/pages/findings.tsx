import { A } from "@solidjs/router";
import { For, Show, createMemo } from "solid-js";
import { amountOf } from "../amounts/quantity";
import { clusters, isOperator, namespaces, pathOf, projects, tenants } from "../api/collections";
import { problemsOf } from "../api/conditions";
import { linkOf } from "../api/links";
import type { Condition } from "../api/types";
import { type Orphan, orphansOf } from "../budget/orphans";
import { t } from "../i18n/messages";
import { withoutForbidden } from "../live/states";
import { ActionWithReason } from "../ui/actions";
import { CommandLine } from "../ui/copy";
import { AmountText, ConditionLine, FeedBoundary, PageHeader } from "../ui/parts";
import { createStableRows } from "../ui/rows";
import { SearchableTable, ShowMore, createPaging } from "../ui/table";

/** Commands that change the database run in a pod of the server, as in the runbooks. */
const AUDIT = "kubectl -n tke-business exec deployment/business-api -- /business-api audit";

/** Differences, and objects that need attention, among all that the user sees. */
export function Findings() {
  const all = projects();
  const inside = namespaces();
  const fleet = clusters();
  const ruled = tenants();
  const found = createMemo(() => [
    ...[...all.objects().values()].flatMap(orphansOf),
    ...[...fleet.objects().values()].flatMap(({ status }) => (status?.comparison?.strangers ?? []).map((stranger) =>
      ({ place: `${stranger.clusterName}/${stranger.namespace}`, state: "Stranger" as const, project: stranger.project, hard: stranger.hard }))),
  ]);
  const troubled = createMemo(() => [
    ...[...fleet.objects().values()].map((object) => ({ object, link: "/clusters" })),
    ...[...ruled.objects().values()].map((object) => ({ object, link: `/tenants/${object.metadata.name}` })),
    ...[...all.objects().values()].map((object) => ({ object, link: linkOf(object.metadata.name) })),
    ...[...inside.objects().values()].map((object) => ({ object, link: linkOf(object.metadata.name, object.metadata.namespace) })),
  ].flatMap(({ object, link }) => problemsOf(object).map((wrong) => ({ name: object.metadata.name, link, wrong }))));
  const differing = createStableRows(() => [...all.objects().values()].flatMap(({ metadata: { name }, status }) =>
    (status?.ledger?.differences ?? []).map((difference) => ({ name, difference }))));
  const waiting = createStableRows(() => [...fleet.objects().values()].flatMap(({ metadata: { name }, status }) => {
    const { missing, unreported = 0 } = status?.comparison ?? { missing: t("cluster.notcompared") };
    if (missing) return [{ name, why: missing }];
    return unreported > 0 ? [{ name, why: t("cluster.unreported", { count: unreported }) }] : [];
  }));
  // By name, so that an open dialog survives a change of the project.
  const locked = createMemo(() => [...all.objects().values()].filter(({ status }) => status?.locked).map(({ metadata }) => metadata.name));
  const none = () => t(fleet.objects().size > 0 ? "findings.none" : "findings.none.own");
  return (
    <>
      <PageHeader title={t("findings.title")} under={t("findings.about")} />
      <FeedBoundary states={[all.state(), inside.state(), ...withoutForbidden(fleet.state(), ruled.state())]}>
        <Show when={found().length + troubled().length + locked().length + differing().length + waiting().length > 0} fallback={<p class="card empty">{none()}</p>}>
          <Show when={waiting().length > 0}>
            <section class="card" aria-label={t("findings.growth")}>
              <h2>{t("findings.growth")}</h2>
              <p class="quiet">{t("findings.growth.text")}</p>
              <ul class="stairs">
                <For each={waiting()}>{({ name, why }) => <li><A href="/clusters">{name}</A>{" "}<span class="tag noted">{t("findings.growth.waits")}</span>{" "}{why}</li>}</For>
              </ul>
              <p class="quiet">{t("findings.growth.ends")}</p>
              <p class="notice">{t("findings.growth.danger")}</p>
              <CommandLine line={`${AUDIT} --go-on`} />
            </section>
          </Show>
          <Show when={differing().length > 0}>
            <section class="card" aria-label={t("findings.differences")}>
              <h2>{t("findings.differences")}</h2>
              <ul class="stairs">
                <For each={differing()}>{({ name, difference }) => <li><A href={`/projects/${name}`}>{name}</A>{" "}{difference}</li>}</For>
              </ul>
              <p class="quiet">{t("findings.differences.ends")}</p>
              <p class="notice">{t("findings.differences.danger")}</p>
              <CommandLine line={`${AUDIT} --repair`} />
            </section>
          </Show>
          <Show when={found().length > 0}><OrphanTable found={found()} /></Show>
          <Show when={troubled().length > 0}><Conditions troubled={troubled()} /></Show>
          <For each={locked()}>
            {(name) => (
              <section class="card" aria-label={name}>
                <div class="head">
                  <A href={`/projects/${name}`}>{name}</A>
                  <Show when={isOperator()}>
                    <ActionWithReason label={t("act.unlock")} title={t("act.unlock.title", { name })} text={t("act.unlock.text")} path={`${pathOf("projects", name)}/unlock`} />
                  </Show>
                </div>
                <p>{t("project.locked")} {all.objects().get(name)?.metadata.annotations?.["business.tkestack.io/lock-reason"]}</p>
              </section>
            )}
          </For>
        </Show>
      </FeedBoundary>
    </>
  );
}

/** A condition that is not good, with a link to its object. */
interface Trouble {
  name: string;
  link: string;
  wrong: Condition;
}

/** Conditions that are not good. May be long: an unreachable cluster causes one for each of its namespaces. */
function Conditions(props: { troubled: readonly Trouble[] }) {
  const [most, more] = createPaging(t("findings.conditions"));
  const shown = createStableRows(() => props.troubled.slice(0, most()));
  return (
    <section class="card" aria-label={t("findings.conditions")}>
      <h2>{t("findings.conditions")}</h2>
      <ul class="stairs">
        <For each={shown()}>
          {({ name, link, wrong }) => <li><A href={link}>{name}</A>{" "}<ConditionLine one={wrong} /></li>}
        </For>
      </ul>
      <ShowMore shown={most()} of={props.troubled.length} show={more} />
    </section>
  );
}

function OrphanTable(props: { found: readonly Orphan[] }) {
  return (
    <SearchableTable label={t("findings.orphans")} none={t("findings.none")} rows={props.found} searchText={({ place, project = "" }) => `${place} ${project}`}
      columns={["column.name", "column.phase", "column.project", "column.amounts", "column.reason"]}>
      {({ place, state, uid, project, hard, reason }) => (
        <tr>
          <td>{place}</td>
          <td><Show when={state} fallback="–">{(is) => <span class="tag noted">{t(`found.${is()}`)}</span>}</Show></td>
          <td><Show when={project} fallback="–">{(name) => <A href={`/projects/${name()}`}>{name()}</A>}</Show></td>
          <td>
            <For each={Object.entries(hard ?? {})}>
              {([resource, amount]) => <div class="pair">{resource}{" "}<AmountText amount={amountOf(amount)} resource={resource} /></div>}
            </For>
          </td>
          <td>
            <Show when={reason}><div>{reason}</div></Show>
            <Show when={state} fallback={reason ? "" : "–"}>{(is) => <div class="quiet">{t(`todo.${is()}`)}</div>}</Show>
            <Show when={uid}>
              {(is) => (
                <details>
                  <summary>{t("findings.writeoff")}</summary>
                  <p class="notice">{t("findings.writeoff.danger")}</p>
                  <CommandLine line={`${AUDIT} --write-off ${is()}`} />
                </details>
              )}
            </Show>
          </td>
        </tr>
      )}
    </SearchableTable>
  );
}
