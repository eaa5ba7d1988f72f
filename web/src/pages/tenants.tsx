import { A, useParams } from "@solidjs/router";
import { For, Show, createMemo } from "solid-js";
import { isOperator, namespaces, platforms, projects, tenants } from "../api/collections";
import { conditionsOf } from "../api/conditions";
import type { Platform, Project, Tenant as TenantObject } from "../api/types";
import { type TreeNode, addUsage, forest } from "../budget/forest";
import { tenantShares, worst } from "../budget/shares";
import { t } from "../i18n/messages";
import { withoutForbidden } from "../live/states";
import { PeopleLink } from "../ui/access";
import { ReviewLink } from "../ui/actions";
import { MoreObjects } from "../ui/more";
import { Conditions, ErrorCard, FeedBoundary, Fullness, Legend, MarkLegend, PageHeader, Shares, notFoundError } from "../ui/parts";
import { createStableRows } from "../ui/rows";
import { Table } from "../ui/table";

/** What the root projects of a tenant consume, by cluster and resource. */
function usageOf(roots: readonly TreeNode[], tenant: string): Map<string, bigint> {
  const usage = new Map<string, bigint>();
  for (const root of roots) {
    if (root.project.spec?.tenantID !== tenant) continue;
    for (const [key, amount] of root.usage) addUsage(usage, key, amount);
  }
  return usage;
}

/** How many projects of a tenant the user sees. */
function countOf(all: Iterable<Project>, tenant: string): number {
  let count = 0;
  for (const { spec } of all) if (spec?.tenantID === tenant) count += 1;
  return count;
}

export function Tenants() {
  const all = tenants();
  const sorted = createMemo(() => [...all.objects().values()]
    .map((tenant) => ({
      name: tenant.metadata.name, title: tenant.spec?.displayName || tenant.metadata.name,
      projects: tenant.status?.projects ?? 0, namespaces: tenant.status?.namespaces ?? 0,
      full: worst(tenantShares(tenant, new Map())), unlimited: Object.keys(tenant.spec?.clusters ?? {}).length === 0,
    }))
    .sort((a, b) => b.full - a.full || a.name.localeCompare(b.name)));
  return (
    <>
      <PageHeader title={t("tenants.title")} />
      <FeedBoundary states={[all.state()]}>
        <Show when={sorted().length > 0} fallback={<p class="card empty">{t("tenants.none")}</p>}>
          <MarkLegend />
          <Table label={t("tenants.title")} rows={sorted()} isCard
            columns={["column.name", "nav.projects", "cluster.namespaces", "column.share"]}>
            {({ name, title, projects, namespaces, full, unlimited }) => (
              <tr>
                <td><A href={`/tenants/${name}`}>{title}</A></td>
                <td class="number">{projects}</td>
                <td class="number">{namespaces}</td>
                <td><Fullness thousandths={full} unlimited={unlimited} /></td>
              </tr>
            )}
          </Table>
        </Show>
        <MoreObjects kinds={["platforms", "namespacetemplates"]} />
      </FeedBoundary>
    </>
  );
}

/** A tenant: its ceilings, and the projects below it. */
export function Tenant() {
  const params = useParams<{ name: string }>();
  const all = tenants();
  const inside = projects();
  const used = namespaces();
  const named = platforms();
  const roots = createMemo(() => forest(inside.objects().values(), used.objects().values()));
  const own = () => [...named.objects().values()].filter(({ spec }) => spec?.tenantID === params.name);
  return (
    <FeedBoundary states={[all.state(), inside.state(), used.state(), ...withoutForbidden(named.state())]}>
      <Show when={all.objects().get(params.name)} fallback={<ErrorCard error={notFoundError(params.name)} />}>
        {(tenant) => <Shown tenant={tenant()} roots={roots()} seen={countOf(inside.objects().values(), params.name)} platforms={own()} />}
      </Show>
    </FeedBoundary>
  );
}

function Shown(props: { tenant: TenantObject; roots: TreeNode[]; seen: number; platforms: Platform[] }) {
  const name = () => props.tenant.metadata.name;
  const count = () => props.tenant.status?.projects ?? 0;
  const shares = createMemo(() => tenantShares(props.tenant, usageOf(props.roots, name())).filter((share) => share.hard !== undefined));
  // Stable rows: each event of the feed rebuilds the trees, but a link keeps the focus.
  const own = createStableRows(() => props.roots.filter(({ project }) => project.spec?.tenantID === name()).map((root) => ({
    name: root.name, title: root.project.spec?.displayName || root.name,
    full: worst(root.shares), unlimited: root.shares.every((share) => share.hard === undefined),
  })));
  return (
    <>
      <PageHeader title={props.tenant.spec?.displayName || name()} under={name()}>
        <Show when={isOperator()}><A class="button" href={`/change/tenants/${name()}`}>{t("project.change")}</A></Show>
        <ReviewLink plural="tenants" name={name()} />
      </PageHeader>
      <Show when={props.tenant.spec?.template}>
        {(template) => <p>{t("form.template")}: <A href={`/review/namespacetemplates/${template()}`}>{template()}</A></p>}
      </Show>
      <Show when={shares().length > 0 && props.seen < count()}>
        <p class="notice">{t("tenant.part", { seen: props.seen, count: count() })}</p>
      </Show>
      <Legend />
      <div class="cards">
        <Show when={shares().length > 0} fallback={<p class="card quiet">{t("tenant.noceilings")}</p>}><Shares shares={shares()} /></Show>
      </div>
      <div class="cards">
        <section class="card" aria-label={t("nav.projects")}>
          <h2>{t("nav.projects")}</h2>
          <ul class="stairs">
            <For each={own()} fallback={<li class="quiet">{t("projects.none")}</li>}>
              {({ name, title, full, unlimited }) => (
                <li class="row"><A href={`/projects/${name}`}>{title}</A><Fullness thousandths={full} unlimited={unlimited} /></li>
              )}
            </For>
          </ul>
        </section>
        <Administrators tenant={props.tenant} platforms={props.platforms} />
        <section class="card" aria-label={t("project.conditions")}>
          <h2>{t("project.conditions")}</h2>
          <Conditions all={conditionsOf(props.tenant)} />
        </section>
        <MoreObjects kinds={["platforms", "namespacetemplates"]} tenant={name()} />
      </div>
    </>
  );
}

/** Administrators of the Tenant, whom operators change, and those of its Platforms, who change them themselves. */
function Administrators(props: { tenant: TenantObject; platforms: Platform[] }) {
  return (
    <section class="card" aria-label={t("tenant.administrators")}>
      <div class="head">
        <h2>{t("tenant.administrators")}</h2>
        <Show when={isOperator()}><PeopleLink plural="tenants" name={props.tenant.metadata.name} /></Show>
      </div>
      <ul class="stairs">
        <For each={props.tenant.spec?.administrators} fallback={<li class="quiet">{t("tenant.nobody")}</li>}>
          {(who) => <li><span class="tag">{t(`kind.${who.kind}`)}</span>{" "}{who.namespace ? `${who.namespace}:${who.name}` : who.name}</li>}
        </For>
      </ul>
      <For each={props.platforms}>
        {({ metadata, spec }) => (
          <>
            <div class="head"><h3>{t("tenant.platform", { name: metadata.name })}</h3><PeopleLink plural="platforms" name={metadata.name} /></div>
            <ul class="stairs">
              <For each={spec?.administrators} fallback={<li class="quiet">{t("tenant.nobody")}</li>}>
                {(name) => <li><span class="tag">{t("kind.User")}</span>{" "}{name}</li>}
              </For>
            </ul>
          </>
        )}
      </For>
    </section>
  );
}
