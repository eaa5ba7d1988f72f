import { A, useParams } from "@solidjs/router";
import { For, Show, createMemo, untrack } from "solid-js";
import { isOperator, namespaces, pathOf, projects, registryObjectsOf } from "../api/collections";
import { conditionsOf } from "../api/conditions";
import { REGISTRY, REGISTRY_PLURALS } from "../api/registry";
import type { Project as ProjectObject } from "../api/types";
import { type TreeNode, forest } from "../budget/forest";
import { childSummaries, countBelow, holders } from "../budget/holders";
import { deletionBlocker } from "../budget/releases";
import { formatDateTime, percent, t } from "../i18n/messages";
import { Access } from "../ui/access";
import { ActionWithReason, DeleteButton, ReviewLink } from "../ui/actions";
import { FieldState, NotFound } from "../ui/notfound";
import { AmountText, ApiText, Conditions, FeedBoundary, Legend, PageHeader, Shares, phaseText } from "../ui/parts";
import { MoreObjects } from "../ui/more";
import { RecentChanges } from "../ui/recent";
import { Releasing } from "../ui/releases";
import { SearchableTable } from "../ui/table";

/** A project: its limits, and what holds them. */
export function Project() {
  const params = useParams<{ name: string }>();
  // Keyed, since Back and Forward from one project to another keep the component, but the searches in its lists belong to one project.
  return <Show keyed when={params.name}>{(name) => <ProjectOf name={name} />}</Show>;
}

function ProjectOf(props: { name: string }) {
  const all = projects();
  const inside = namespaces();
  const node = createMemo(() => find(forest(all.objects().values(), inside.objects().values()), props.name));
  return (
    <FeedBoundary states={[all.state(), inside.state()]}>
      <Show when={node()} fallback={<NotFound name={props.name} />}>
        {(found) => <Shown node={found()} all={all.objects()} />}
      </Show>
    </FeedBoundary>
  );
}

function find(nodes: readonly TreeNode[], name: string): TreeNode | undefined {
  for (const node of nodes) {
    const found = node.name === name ? node : find(node.children, name);
    if (found) return found;
  }
  return undefined;
}

function Shown(props: { node: TreeNode; all: ReadonlyMap<string, ProjectObject> }) {
  const project = () => props.node.project;
  const spec = () => project().spec;
  const locked = () => project().status?.locked ?? false;
  const leaving = () => project().metadata.deletionTimestamp;
  return (
    <>
      <PageHeader title={spec()?.displayName || props.node.name} under={[props.node.name, spec()?.tenantID, phaseText(project().status?.phase)].filter(Boolean).join(" · ")}>
        <Show when={!leaving()}>
          <A class="button main" href={`/create/namespace?project=${props.node.name}`}>{t("project.create.namespace")}</A>
          <A class="button" href={`/create/project?parent=${props.node.name}`}>{t("project.create.below")}</A>
          <A class="button" href={`/change/projects/${props.node.name}`}>{t("project.change")}</A>
        </Show>
        <ReviewLink plural="projects" name={props.node.name} />
        <Show when={!leaving()}><A class="button" href={`/move/projects/${props.node.name}`}>{t("act.move")}</A></Show>
        <Show when={isOperator() && !leaving()}>
          <ActionWithReason label={t(locked() ? "act.unlock" : "act.lock")}
            title={t(locked() ? "act.unlock.title" : "act.lock.title", { name: props.node.name })} text={t(locked() ? "act.unlock.text" : "act.lock.text")}
            path={`${pathOf("projects", props.node.name)}/${locked() ? "unlock" : "lock"}`} />
        </Show>
        <Show when={!leaving()}>
          <DeleteButton plural="projects" name={props.node.name} uid={project().metadata.uid} text={t("act.delete.project", countBelow(props.node))} after="/" />
        </Show>
      </PageHeader>
      <Show when={spec()?.parentProjectName}>
        {(parent) => <p><A href={`/projects/${parent()}`}>{t("project.parent", { name: parent() })}</A></p>}
      </Show>
      <Show when={spec()?.template}>
        {(template) => <p>{t("form.template")}: <A href={`/review/namespacetemplates/${template()}`}>{template()}</A></p>}
      </Show>
      <Show when={leaving()}>
        {(since) => <p class="notice">{t("project.leaving", { time: formatDateTime(since()) })}{" "}<ApiText>{deletionBlocker(project())}</ApiText></p>}
      </Show>
      <Show when={locked()}>
        <p class="notice bad">{t("project.locked")} {project().metadata.annotations?.["business.tkestack.io/lock-reason"]}</p>
      </Show>
      <Legend />
      <div class="cards">
        <Show when={props.node.shares.length > 0} fallback={<p class="card quiet">{t("project.nobudget")}</p>}>
          <Shares shares={props.node.shares} />
        </Show>
      </div>
      <Holders node={props.node} />
      <Members node={props.node} />
      <Releasing node={props.node} />
      <div class="cards">
        <Access of={props.node.name} all={props.all} isChanged={!leaving()} />
        <section class="card" aria-label={t("project.conditions")}>
          <h2>{t("project.conditions")}</h2>
          <Conditions all={conditionsOf(project())} />
        </section>
        <RecentChanges object={project()} />
        <MoreObjects kinds={["imagenamespaces", "chartgroups", "registrycredentials"]} project={props.node.name} />
      </div>
    </>
  );
}

/** Links to all children of the project, also to those that hold nothing. */
function Members(props: { node: TreeNode }) {
  const all = createMemo(() => childSummaries(props.node));
  return (
    <SearchableTable label={t("project.members")} none={t("project.nomembers")} rows={all()} searchText={({ name }) => name}
      columns={["column.name", "column.kind", "column.phase", "form.cluster", "column.most"]}>
      {(member) => (
        <tr>
          <td><A href={member.link}>{member.name}</A></td>
          <td>{t(`member.${member.is}`)}</td>
          <td>{phaseText(member.phase)}</td>
          <td>{member.clusters.join(", ")}</td>
          <td class="number">{member.share > 0 ? percent(member.share) : "–"}</td>
        </tr>
      )}
    </SearchableTable>
  );
}

function Holders(props: { node: TreeNode }) {
  const hasRegistry = createMemo(() => props.node.shares.some(({ cluster }) => cluster === REGISTRY));
  /** Read only where the registry is limited. */
  const registry = createMemo(() => (hasRegistry() ? untrack(() => REGISTRY_PLURALS.map((plural) => ({ plural, read: registryObjectsOf(props.node.name, plural) }))) : []));
  const registered = () => registry().flatMap(({ plural, read }) => [...read.objects().values()].map((object) => ({ plural, object })));
  const all = createMemo(() => holders(props.node, registered()));
  return (
    <>
      <SearchableTable label={t("project.holders")} none={t("project.noholders")} rows={all()} searchText={({ name, cluster, resource }) => `${name} ${cluster} ${resource}`}
        columns={["column.name", "column.phase", "column.resource", "column.allocated", "column.share", "column.idle"]}>
        {(holder) => (
          <tr>
            <td><A href={holder.link}>{holder.name}</A></td>
            <td>{phaseText(holder.phase)}</td>
            <td>{holder.cluster} · {holder.resource}</td>
            <td><AmountText amount={holder.hard} resource={holder.resource} /></td>
            <td class="number">{percent(holder.share)}</td>
            <td class="number">{holder.idle === undefined ? "–" : percent(holder.idle)}</td>
          </tr>
        )}
      </SearchableTable>
      <For each={registry()}>{({ read }) => <FieldState state={read.state()} />}</For>
    </>
  );
}
