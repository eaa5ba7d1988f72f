import { useNavigate, useParams, useSearchParams } from "@solidjs/router";
import { For, Show, createEffect, createMemo, createResource, createSignal, untrack } from "solid-js";
import { createStore } from "solid-js/store";
import type { QuantityText } from "../amounts/quantity";
import { GROUP, request } from "../api/client";
import { pathOf, projects } from "../api/collections";
import type { Namespace, Project } from "../api/types";
import { offering } from "../budget/offering";
import { inOrder } from "../budget/shares";
import { t } from "../i18n/messages";
import { AskingForm, type Outgoing, checked } from "../ui/asking";
import { FieldState, MADE } from "../ui/awaited";
import { type ClusterLimits, LimitsFields, filledIn } from "../ui/limits";
import { Head, Problem } from "../ui/parts";

type What = "project" | "namespace";

interface Draft {
  name: string;
  displayName: string;
  parent: string;
  tenant: string;
}

const emptyLimits = (cluster: string): ClusterLimits =>
  ({ cluster, amounts: [{ resource: "requests.cpu", amount: "" }, { resource: "requests.memory", amount: "" }] });

function outgoing(what: What, draft: Draft, limits: readonly ClusterLimits[]): Outgoing | undefined {
  const [first] = limits;
  if (!draft.name || !first?.cluster) return undefined;
  const apiVersion = "business.tkestack.io/v1";
  if (what === "project") {
    const spec = {
      displayName: draft.displayName || draft.name,
      ...(draft.parent ? { parentProjectName: draft.parent } : {}),
      ...(draft.tenant ? { tenantID: draft.tenant } : {}),
      clusters: Object.fromEntries(limits.map(({ cluster, amounts }) => [cluster, { hard: filledIn(amounts) }])),
    };
    return { method: "POST", path: `${GROUP}/projects`, body: { apiVersion, kind: "Project", metadata: { name: draft.name }, spec } };
  }
  if (!draft.parent) return undefined;
  const metadata = { name: `${first.cluster}-${draft.name}`, namespace: draft.parent };
  const spec = { clusterName: first.cluster, namespace: draft.name, hard: filledIn(first.amounts) };
  const path = `${GROUP}/namespaces/${encodeURIComponent(draft.parent)}/namespaces`;
  return { method: "POST", path, body: { apiVersion, kind: "Namespace", metadata, spec } };
}

/** Those of the project above, or, without one, those that are offered. */
function clusterChoices(parent: () => string, what: () => What): () => string[] {
  const all = projects();
  const [offers] = createResource(() => request<{ items: { metadata: { name: string } }[] }>(`${GROUP}/clusteroffers`).catch(() => ({ items: [] })));
  return () => {
    const above = all.objects().get(parent());
    const names = above ? Object.keys(above.spec?.clusters ?? {}) : (offers.latest?.items.map(({ metadata }) => metadata.name) ?? []);
    return names.filter((name) => what() === "project" || name !== "registry").sort(inOrder);
  };
}

/** Something new. The server says while one types whether it would take it. */
export function Create() {
  const params = useParams<{ what: What }>();
  const [query] = useSearchParams<{ project?: string; parent?: string }>();
  const [draft, change] = createStore<Draft>({ name: "", displayName: "", parent: query.project ?? query.parent ?? "", tenant: "" });
  const [limits, setLimits] = createSignal<readonly ClusterLimits[]>([emptyLimits("")]);
  const choices = clusterChoices(() => draft.parent, () => params.what);
  const navigate = useNavigate();
  offerLimited(() => draft.parent, choices, limits, setLimits);
  const sent = createMemo(() => outgoing(params.what, draft, limits()));
  const verdict = checked(sent);
  const done = () => {
    const name = params.what === "project" ? draft.name : `${limits()[0]?.cluster}-${draft.name}`;
    navigate(params.what === "project" ? `/projects/${name}` : `/projects/${draft.parent}/namespaces/${name}`, MADE);
  };
  return (
    <>
      <Head title={t(params.what === "project" ? "form.project" : "form.namespace")} />
      <AskingForm sent={sent()} verdict={verdict()} label={t("form.create")} incomplete={t("form.incomplete")} done={done}
        cancel={draft.parent ? `/projects/${draft.parent}` : "/"}>
        <label class="field">
          <span>{t("form.name")}</span>
          <input required maxlength="63" pattern="[a-z0-9]([\-a-z0-9]*[a-z0-9])?" value={draft.name} autocomplete="off"
            onInput={(event) => change("name", event.currentTarget.value)} />
          <small>{t("form.name.help")}</small>
        </label>
        <Show when={params.what === "project"}>
          <label class="field">
            <span>{t("form.display")}</span>
            <input value={draft.displayName} onInput={(event) => change("displayName", event.currentTarget.value)} />
          </label>
        </Show>
        <ParentField what={params.what} value={draft.parent} onChange={(value) => change("parent", value)} />
        <Show when={params.what === "project" && !draft.parent}>
          <label class="field">
            <span>{t("form.tenant")}</span>
            <input value={draft.tenant} onInput={(event) => change("tenant", event.currentTarget.value)} />
          </label>
        </Show>
        <LimitsFields limits={limits()} choices={choices()} isSeveral={params.what === "project"} set={setLimits} empty={emptyLimits} />
      </AskingForm>
    </>
  );
}

/** A cluster is chosen, and what is limited above is offered, as soon as the project above is known. */
function offerLimited(
  parent: () => string, choices: () => string[], limits: () => readonly ClusterLimits[], set: (limits: readonly ClusterLimits[]) => void,
): void {
  const all = projects();
  const offered = new Set<string>();
  createEffect(() => {
    const names = choices();
    const above = all.objects().get(parent())?.spec?.clusters ?? {};
    const wanted = limits();
    untrack(() => {
      const next = wanted.map((entry) => {
        const cluster = names.includes(entry.cluster) ? entry.cluster : (names[0] ?? entry.cluster);
        const limited = Object.keys(above[cluster]?.hard ?? {}).sort(inOrder);
        const offer = [parent(), cluster, ...limited].join();
        const amounts = offering(entry.amounts, limited, offered.has(offer));
        offered.add(offer);
        return cluster === entry.cluster && amounts === entry.amounts ? entry : { cluster, amounts };
      });
      if (next.some((entry, index) => entry !== wanted[index])) set(next);
    });
  });
}

/** Another amount for what is there. */
export function Change() {
  const params = useParams<{ plural: "projects" | "namespaces"; place: string }>();
  const at = () => params.place.split("/");
  const path = () => (params.plural === "projects" ? pathOf("projects", at()[0] ?? "") : pathOf("namespaces", at()[1] ?? "", at()[0]));
  const [found] = createResource(path, (path) => request<Project & Namespace>(path));
  return (
    <Show when={found.error === undefined} fallback={<Problem error={found.error} />}>
      <Show when={found()} fallback={<p class="empty" role="status">{t("state.loading")}</p>}>
        {(object) => <ChangeForm object={object()} plural={params.plural} path={path()} />}
      </Show>
    </Show>
  );
}

function ChangeForm(props: { object: Project & Namespace; plural: string; path: string }) {
  const isProject = () => props.plural === "projects";
  const { name, namespace, resourceVersion } = props.object.metadata;
  const spec = props.object.spec;
  const before: Record<string, Record<string, QuantityText>> = isProject()
    ? Object.fromEntries(Object.entries(spec?.clusters ?? {}).map(([cluster, { hard = {} }]) => [cluster, hard]))
    : { [spec?.clusterName ?? ""]: spec?.hard ?? {} };
  const [limits, setLimits] = createSignal<readonly ClusterLimits[]>(Object.entries(before).map(([cluster, hard]) =>
    ({ cluster, amounts: Object.entries(hard).map(([resource, amount]) => ({ resource, amount: String(amount) })) })));
  const offered = clusterChoices(() => spec?.parentProjectName ?? "", () => "project");
  const choices = () => (isProject() ? [...new Set([...Object.keys(before), ...offered()])].sort(inOrder) : Object.keys(before));
  const navigate = useNavigate();
  const back = () => (isProject() ? `/projects/${name}` : `/projects/${namespace}/namespaces/${name}`);
  const sent = createMemo((): Outgoing => {
    const patches = Object.fromEntries([
      ...limits().map(({ cluster, amounts }) => [cluster, { hard: withNulls(before[cluster] ?? {}, filledIn(amounts)) }] as const),
      ...Object.keys(before).filter((cluster) => !limits().some((entry) => entry.cluster === cluster)).map((cluster) => [cluster, null] as const),
    ]);
    const spec = isProject() ? { clusters: patches } : patches[Object.keys(before)[0] ?? ""];
    return { method: "PATCH", path: props.path, body: { metadata: { resourceVersion }, spec } };
  });
  const verdict = checked(sent);
  return (
    <>
      <Head title={t("form.change", { name })} under={namespace ?? ""} />
      <AskingForm sent={sent()} verdict={verdict()} label={t("form.save")} incomplete={t("form.incomplete")} done={() => navigate(back())} cancel={back()}>
        <LimitsFields limits={limits()} choices={choices()} isSeveral={isProject()} set={setLimits} empty={emptyLimits} />
      </AskingForm>
    </>
  );
}

/** For a merge patch: what is not wanted any more is null. */
function withNulls(before: Readonly<Record<string, QuantityText>>, after: Readonly<Record<string, string>>): Record<string, string | null> {
  const gone = Object.keys(before).filter((resource) => !(resource in after));
  return { ...after, ...Object.fromEntries(gone.map((resource) => [resource, null])) };
}

function ParentField(props: { what: What; value: string; onChange: (value: string) => void }) {
  const all = projects();
  const names = () => [...all.objects().keys()].sort();
  return (
    <label class="field">
      <span>{t("form.parent")}</span>
      <select required={props.what === "namespace"} value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        <option value="">{props.what === "project" ? t("form.parent.none") : ""}</option>
        <For each={names()}>{(name) => <option value={name} selected={name === props.value}>{name}</option>}</For>
      </select>
      <FieldState state={all.state()} />
    </label>
  );
}
