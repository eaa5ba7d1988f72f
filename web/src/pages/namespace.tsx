import { A, useParams } from "@solidjs/router";
import { Show, createMemo, createSignal } from "solid-js";
import { amountOf } from "../amounts/quantity";
import { requestText } from "../api/client";
import { isOperator, namespacesOf, pathOf, projects } from "../api/collections";
import { conditionsOf } from "../api/conditions";
import { messageOf } from "../api/status";
import type { Namespace as NamespaceObject, Project } from "../api/types";
import { deletionBlocker, deletionText } from "../budget/releases";
import { chargeOf, fullness, namespaceShares } from "../budget/shares";
import { formatDateTime, t } from "../i18n/messages";
import { Access } from "../ui/access";
import { ActionWithReason, DeleteButton, ReviewLink } from "../ui/actions";
import { NotFound } from "../ui/notfound";
import { AmountText, ApiText, Conditions, FeedBoundary, Fullness, MarkLegend, PageHeader, Warnings, phaseText } from "../ui/parts";
import { RecentChanges } from "../ui/recent";
import { Table } from "../ui/table";

/** A namespace: what it was granted, is charged and uses. */
export function Namespace() {
  const params = useParams<{ project: string; name: string }>();
  // Keyed, since Back and Forward from one namespace to another keep the component, which subscribes to one project.
  return <Show keyed when={`${params.project}/${params.name}`}><NamespaceOf project={params.project} name={params.name} /></Show>;
}

function NamespaceOf({ project, name }: { project: string; name: string }) {
  const all = namespacesOf(project);
  const above = projects();
  const found = createMemo(() => all.objects().get(`${project}/${name}`));
  return (
    <FeedBoundary states={[all.state(), above.state()]}>
      <Show when={found()} fallback={<NotFound name={name} />}>
        {(namespace) => <Shown namespace={namespace()} projects={above.objects()} />}
      </Show>
    </FeedBoundary>
  );
}

function Shown(props: { namespace: NamespaceObject; projects: ReadonlyMap<string, Project> }) {
  const [isAsking, setAsking] = createSignal(false);
  const [problem, setProblem] = createSignal("");
  const [warnings, setWarnings] = createSignal<readonly string[]>([]);
  const meta = () => props.namespace.metadata;
  const project = () => meta().namespace ?? "";
  const charge = () => chargeOf(props.namespace) ?? {};
  const download = async () => {
    // Each request makes a certificate, of which there are only so many a minute.
    if (isAsking()) return;
    setAsking(true);
    setProblem("");
    setWarnings([]);
    try {
      save(`${meta().name}.kubeconfig`, await kubeconfig(project(), meta().name, setWarnings));
    } catch (error) {
      setProblem(messageOf(error));
    } finally {
      setAsking(false);
    }
  };
  return (
    <>
      <PageHeader title={meta().name} under={`${project()} · ${phaseText(props.namespace.status?.phase)}`}>
        <Show when={!meta().deletionTimestamp}>
          <button class="button main" type="button" aria-busy={isAsking()} onClick={() => void download()}>{t("namespace.kubeconfig")}</button>
          <A class="button" href={`/change/namespaces/${project()}/${meta().name}`}>{t("namespace.edit")}</A>
          <A class="button" href={`/move/namespaces/${project()}/${meta().name}`}>{t("act.move")}</A>
        </Show>
        <ReviewLink plural="namespaces" name={meta().name} namespace={project()} />
        <Show when={meta().deletionTimestamp} fallback={
          <DeleteButton plural="namespaces" name={meta().name} namespace={project()} uid={meta().uid} text={t(deletionText(props.namespace))} after={`/projects/${project()}`} />
        }>
          <Show when={isOperator()}>
            <ActionWithReason grave label={t("act.abandon")} title={t("act.abandon.title", { name: meta().name })} text={t("act.abandon.text")}
              typed={meta().name} path={`${pathOf("namespaces", meta().name, project())}/abandon`} after={`/projects/${project()}`} />
          </Show>
        </Show>
      </PageHeader>
      <p><A href={`/projects/${project()}`}>{t("project.parent", { name: project() })}</A></p>
      <Show when={meta().deletionTimestamp}>
        {(since) => <p class="notice">{t("namespace.leaving", { time: formatDateTime(since()) })} {deletionBlocker(props.namespace)}</p>}
      </Show>
      <Show when={isAsking()}><p class="quiet" role="status">{t("namespace.kubeconfig.waits")}</p></Show>
      <Show when={problem()}><p class="notice bad" role="alert">{t("namespace.kubeconfig.none", { why: "" })}<ApiText>{problem()}</ApiText></p></Show>
      <Show when={warnings().length > 0}><div class="stairs" role="status"><Warnings texts={warnings()} /></div></Show>
      <section class="card" aria-label={t("project.budget")}>
        <h2>{t("project.budget")}</h2>
        <Table label={t("project.budget")} rows={namespaceShares(props.namespace)}
          columns={["column.resource", "namespace.granted", "namespace.charged", "namespace.used", "column.share"]}>
          {(share) => (
            <tr>
              <td>{share.resource}</td>
              <td><AmountText amount={share.hard} resource={share.resource} /></td>
              <td><AmountText amount={amountOf(charge()[share.resource])} resource={share.resource} /></td>
              <td><AmountText amount={share.used} resource={share.resource} /></td>
              <td><Fullness thousandths={fullness(share)} unlimited={share.hard === undefined} /></td>
            </tr>
          )}
        </Table>
        <MarkLegend />
      </section>
      <div class="cards halves">
        <section class="card" aria-label={t("namespace.cluster")}>
          <h2>{t("namespace.title", { name: props.namespace.spec?.namespace ?? "" })}</h2>
          <dl class="facts">
            <dt>{t("namespace.cluster")}</dt><dd>{props.namespace.spec?.clusterDisplayName || props.namespace.spec?.clusterName}</dd>
            <dt>{t("namespace.version")}</dt><dd>{props.namespace.spec?.clusterVersion || "–"}</dd>
            <dt>{t("namespace.template")}</dt>
            <dd><Show when={props.namespace.status?.template?.name} fallback="–">{(name) => <A href={`/review/namespacetemplates/${name()}`}>{name()}</A>}</Show></dd>
          </dl>
        </section>
        <section class="card" aria-label={t("project.conditions")}>
          <h2>{t("project.conditions")}</h2>
          <Conditions all={conditionsOf(props.namespace)} />
        </section>
        <Access of={project()} all={props.projects} />
        <RecentChanges object={props.namespace} />
      </div>
    </>
  );
}

/** A kubeconfig for the namespace in its cluster, with a client certificate of the user. */
function kubeconfig(project: string, name: string, onWarnings: (texts: readonly string[]) => void): Promise<string> {
  return requestText(`${pathOf("namespaces", name, project)}/certificate?format=kubeconfig`, { onWarnings });
}

function save(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/yaml" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
