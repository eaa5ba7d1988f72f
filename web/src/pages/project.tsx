import { A, useParams } from "@solidjs/router";
import { Show, createMemo } from "solid-js";
import { amountOf, permille } from "../amounts/quantity";
import { isOperator, namespaces, pathOf, projects } from "../api/collections";
import type { Condition, Project as ProjectObject } from "../api/types";
import { type TreeNode, forest } from "../budget/forest";
import { chargeOf, inOrder, useKey } from "../budget/shares";
import { percent, t } from "../i18n/messages";
import { Access } from "../ui/access";
import { DeleteButton, ReasonedAct, ReviewLink } from "../ui/acts";
import { AmountText, Conditions, Head, Legend, Living, Problem, Shares, missing, phaseText } from "../ui/parts";
import { Recent } from "../ui/recent";
import { Releasing } from "../ui/releasing";
import { Table } from "../ui/table";

/** One budget: what it is, and who holds it. */
export function Project() {
  const params = useParams<{ name: string }>();
  const all = projects();
  const inside = namespaces();
  const node = createMemo(() => find(forest(all.objects().values(), inside.objects().values()), params.name));
  return (
    <Living states={[all.state(), inside.state()]}>
      <Show when={node()} fallback={<Problem error={missing(params.name)} />}>
        {(found) => <Shown node={found()} all={all.objects()} />}
      </Show>
    </Living>
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
  return (
    <>
      <Head title={spec()?.displayName || props.node.name} under={`${props.node.name} · ${spec()?.tenantID}`}>
        <A class="button main" href={`/create/namespace?project=${props.node.name}`}>{t("project.create.namespace")}</A>
        <A class="button" href={`/create/project?parent=${props.node.name}`}>{t("project.create.below")}</A>
        <A class="button" href={`/change/projects/${props.node.name}`}>{t("project.change")}</A>
        <ReviewLink plural="projects" name={props.node.name} />
        <A class="button" href={`/move/projects/${props.node.name}`}>{t("act.move")}</A>
        <Show when={isOperator()}>
          <ReasonedAct label={t(locked() ? "act.unlock" : "act.lock")}
            title={t(locked() ? "act.unlock.title" : "act.lock.title", { name: props.node.name })} text={t(locked() ? "act.unlock.text" : "act.lock.text")}
            path={`${pathOf("projects", props.node.name)}/${locked() ? "unlock" : "lock"}`} />
        </Show>
        <DeleteButton plural="projects" name={props.node.name} text={t("act.delete.project")} after="/" />
      </Head>
      <Show when={spec()?.parentProjectName}>
        {(parent) => <p><A href={`/projects/${parent()}`}>{t("project.parent", { name: parent() })}</A></p>}
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
      <Releasing node={props.node} />
      <div class="cards">
        <Access of={props.node.name} all={props.all} isChanged />
        <section class="card" aria-label={t("project.conditions")}>
          <h2>{t("project.conditions")}</h2>
          <Conditions all={project().status?.conditions as Condition[] | undefined} />
        </section>
        <Recent object={project()} />
      </div>
    </>
  );
}

interface Holder {
  name: string;
  link: string;
  phase: string;
  cluster: string;
  resource: string;
  hard: bigint;
  used: bigint;
  share: number;
  idle: number;
}

/** Each child's part of each limit, the largest first. */
function holders({ children, namespaces, shares }: TreeNode): Holder[] {
  const all: Holder[] = [];
  const add = (holder: Omit<Holder, "share" | "idle">) => {
    const limit = shares.find(({ cluster, resource }) => cluster === holder.cluster && resource === holder.resource);
    if (limit?.hard === undefined || holder.hard === 0n) return;
    all.push({ ...holder, share: permille(holder.hard, limit.hard), idle: 1000 - Math.min(1000, permille(holder.used, holder.hard)) });
  };
  for (const { name, project, uses } of children) {
    for (const [cluster, { hard = {} }] of Object.entries(project.spec?.clusters ?? {})) {
      for (const [resource, amount] of Object.entries(hard)) {
        const used = uses.get(useKey(cluster, resource)) ?? 0n;
        add({ name, link: `/projects/${name}`, phase: project.status?.phase ?? "", cluster, resource, hard: amountOf(amount), used });
      }
    }
  }
  for (const namespace of namespaces) {
    const { metadata, spec, status } = namespace;
    for (const [resource, amount] of Object.entries(chargeOf(namespace) ?? {})) {
      add({
        name: metadata.name, link: `/projects/${metadata.namespace}/namespaces/${metadata.name}`, phase: status?.phase ?? "",
        cluster: spec?.clusterName ?? "", resource, hard: amountOf(amount), used: amountOf(status?.used?.[resource]),
      });
    }
  }
  return all.sort((a, b) => b.share - a.share || inOrder(a.name, b.name));
}

const SHOWN = 500;

function Holders(props: { node: TreeNode }) {
  const all = createMemo(() => holders(props.node));
  return (
    <section class="card" aria-label={t("project.holders")}>
      <h2>{t("project.holders")}</h2>
      <Show when={all().length > 0} fallback={<p class="quiet">{t("project.noholders")}</p>}>
        <Table label={t("project.holders")} rows={all().slice(0, SHOWN)}
          columns={["column.name", "column.phase", "column.resource", "column.allocated", "column.share", "column.idle"]}>
          {(holder) => (
            <tr>
              <td><A href={holder.link}>{holder.name}</A></td>
              <td>{phaseText(holder.phase)}</td>
              <td>{holder.cluster} · {holder.resource}</td>
              <td><AmountText amount={holder.hard} resource={holder.resource} /></td>
              <td class="number">{percent(holder.share)}</td>
              <td class="number">{percent(holder.idle)}</td>
            </tr>
          )}
        </Table>
      </Show>
    </section>
  );
}
