import { useNavigate, useParams, useSearchParams } from "@solidjs/router";
import { For, Show, createEffect, createMemo, createSignal, untrack } from "solid-js";
import { createStore } from "solid-js/store";
import { GROUP } from "../api/client";
import { isOperator, projects, tenants } from "../api/collections";
import { linkOf } from "../api/links";
import type { Tenant } from "../api/types";
import type { BudgetSource } from "../budget/remaining";
import { type ClusterLimits, NAME_MAX, assignClusters, emptyLimits, filledAmounts, namespaceName, offeredRows } from "../budget/form";
import { compareNames } from "../budget/shares";
import { t } from "../i18n/messages";
import type { Resource } from "../live/feed";
import { DryRunForm, type WriteRequest, createDryRun } from "../ui/dryrun";
import { mayYetBeRead } from "../live/states";
import { FieldState, JUST_CREATED, whyNotRead } from "../ui/notfound";
import { choiceNamed, inChoiceOrder } from "../ui/choice";
import { LimitsFields, clusterChoices, remainingText } from "../ui/limits";
import { PageHeader } from "../ui/parts";

type What = "project" | "namespace";

interface Draft {
  name: string;
  displayName: string;
  parent: string;
  tenant: string;
}

function outgoing(what: What, draft: Draft, limits: readonly ClusterLimits[]): WriteRequest | undefined {
  const [first] = limits;
  if (!draft.name || !first?.cluster) return undefined;
  const apiVersion = "business.tkestack.io/v1";
  if (what === "project") {
    const spec = {
      displayName: draft.displayName || draft.name,
      ...(draft.parent ? { parentProjectName: draft.parent } : {}),
      ...(draft.tenant ? { tenantID: draft.tenant } : {}),
      clusters: Object.fromEntries(limits.map(({ cluster, amounts }) => [cluster, { hard: filledAmounts(amounts) }])),
    };
    return { method: "POST", path: `${GROUP}/projects`, body: { apiVersion, kind: "Project", metadata: { name: draft.name }, spec } };
  }
  if (!draft.parent) return undefined;
  const metadata = { ...namespaceName(first.cluster, draft.name), namespace: draft.parent };
  const spec = { clusterName: first.cluster, namespace: draft.name, hard: filledAmounts(first.amounts) };
  const path = `${GROUP}/namespaces/${encodeURIComponent(draft.parent)}/namespaces`;
  return { method: "POST", path, body: { apiVersion, kind: "Namespace", metadata, spec } };
}

/** Creates a project or a namespace. A dry run checks it while the user types. */
export function Create() {
  const params = useParams<{ what: What }>();
  const [query] = useSearchParams<{ project?: string; parent?: string }>();
  const parent = () => query.project ?? query.parent ?? "";
  // Keyed, since Back and Forward from one form to another keep the component, but what was typed belongs to one form.
  return <Show keyed when={`${params.what}/${parent()}`}><CreateIn what={params.what} parent={untrack(parent)} /></Show>;
}

function CreateIn({ what, parent }: { what: What; parent: string }) {
  const [draft, change] = createStore<Draft>({ name: "", displayName: "", parent, tenant: "" });
  const [limits, setLimits] = createSignal<readonly ClusterLimits[]>([emptyLimits("")]);
  const choices = clusterChoices(() => draft.parent, () => what === "project");
  const all = projects();
  const ruled = tenants();
  const isRoot = () => what === "project" && draft.parent === "";
  const known = createMemo(() => inChoiceOrder(ruled.objects().values()));
  /** The chosen tenant, or the only one that the user sees. A memo, so that events of the feed do not start another dry run. */
  const tenant = createMemo(() => (draft.tenant === "" && !isOperator() && known().length === 1 ? (known()[0] ?? "") : draft.tenant));
  const isLacking = createMemo(() => isRoot() && tenant() === "" && !isOperator() && known().length > 1);
  const source = () => (isRoot() ? ruled.objects().get(tenant()) : all.objects().get(draft.parent));
  /** Why nobody knows yet which clusters there are and what is limited in them: rows that come later would move those that are typed into. */
  const unknown = () => (choices.names().length === 0 && choices.why()) || (isRoot() && mayYetBeRead(ruled.state()) ? (whyNotRead(ruled.state()) ?? "") : "");
  const left = (cluster: string, resource: string) => remainingText("form.left", source(), cluster, resource);
  const navigate = useNavigate();
  offerLimited(source, choices.names, limits, setLimits);
  const sent = createMemo(() => (isLacking() ? undefined : outgoing(what, { ...draft, tenant: isRoot() ? tenant() : "" }, limits())));
  const verdict = createDryRun(sent);
  const done = (created: unknown) => {
    const { name, namespace } = (created as Resource).metadata;
    navigate(linkOf(name, namespace), JUST_CREATED);
  };
  return (
    <>
      <PageHeader title={t(what === "project" ? "form.project" : "form.namespace")} />
      <DryRunForm sent={sent()} verdict={verdict()} label={t("form.create")} incomplete={t(isLacking() ? "form.incomplete.root" : "form.incomplete")} done={done}
        cancel={draft.parent ? `/projects/${draft.parent}` : "/"}>
        <label class="field">
          <span>{t("form.name")}</span>
          <input required maxlength={NAME_MAX} pattern="[a-z0-9]([\-a-z0-9]*[a-z0-9])?" value={draft.name} autocomplete="off"
            onInput={(event) => change("name", event.currentTarget.value)} />
          <small>{t("form.name.help", { count: NAME_MAX })}</small>
        </label>
        <Show when={what === "project"}>
          <label class="field">
            <span>{t("form.display")}</span>
            <input value={draft.displayName} onInput={(event) => change("displayName", event.currentTarget.value)} />
          </label>
        </Show>
        <ParentField what={what} value={draft.parent} onChange={(value) => change("parent", value)} />
        <Show when={isRoot()}>
          <TenantField names={known()} all={ruled.objects()} value={tenant()} onChange={(value) => change("tenant", value)} />
        </Show>
        <Show when={unknown() === ""} fallback={<small class="quiet" role="status">{unknown()}</small>}>
          <LimitsFields limits={limits()} choices={choices.names()} why={choices.why()} isSeveral={what === "project"} set={setLimits} left={left} />
        </Show>
      </DryRunForm>
    </>
  );
}

/** The tenant of a root project. Operators may also name a tenant without an object. */
function TenantField(props: { names: readonly string[]; all: ReadonlyMap<string, Tenant>; value: string; onChange: (value: string) => void }) {
  const text = (name: string) => choiceNamed(props.all, name);
  return (
    <>
      <label class="field">
        <span>{t("form.tenant")}</span>
        <Show when={isOperator() || props.names.length === 0} fallback={
          <select required value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
            <Show when={props.names.length > 1}><option value="" /></Show>
            <For each={props.names}>{(name) => <option value={name} selected={name === props.value}>{text(name)}</option>}</For>
          </select>
        }>
          <input list="tenants" autocomplete="off" value={props.value} onInput={(event) => props.onChange(event.currentTarget.value.trim())} />
        </Show>
      </label>
      <datalist id="tenants"><For each={props.names}>{(name) => <option value={name}>{text(name)}</option>}</For></datalist>
    </>
  );
}

/** Chooses clusters and offers rows for the limited resources, as soon as the parent or the tenant is known. */
function offerLimited(
  source: () => BudgetSource | undefined, choices: () => readonly string[], limits: () => readonly ClusterLimits[], set: (limits: readonly ClusterLimits[]) => void,
): void {
  /** What was offered for the clusters that are chosen now. A cluster that is chosen again later is offered its rows again. */
  let offered: ReadonlySet<string> = new Set();
  createEffect(() => {
    const names = choices();
    const from = source();
    const above = from?.spec?.clusters ?? {};
    const wanted = limits();
    untrack(() => {
      const offers = new Set<string>();
      const clusters = assignClusters(wanted.map(({ cluster }) => cluster), names);
      const next = wanted.flatMap((entry, index) => {
        const cluster = clusters[index];
        if (cluster === undefined) return [];
        const limited = Object.keys(above[cluster]?.hard ?? {}).sort(compareNames);
        const offer = [from?.metadata.name, cluster, ...limited].join();
        const amounts = offeredRows(entry.amounts, limited, offered.has(offer));
        offers.add(offer);
        return [cluster === entry.cluster && amounts === entry.amounts ? entry : { cluster, amounts }];
      });
      offered = offers;
      if (next.length !== wanted.length || next.some((entry, index) => entry !== wanted[index])) set(next);
    });
  });
}

function ParentField(props: { what: What; value: string; onChange: (value: string) => void }) {
  const all = projects();
  const known = createMemo(() => inChoiceOrder(all.objects().values()));
  // The chosen one is among them before it is read, and when it is gone: the browser would show another one than is sent.
  const names = createMemo(() => (props.value === "" || all.objects().has(props.value) ? known() : [props.value, ...known()]));
  const text = (name: string) => choiceNamed(all.objects(), name);
  return (
    <label class="field">
      <span>{t("form.parent")}</span>
      <select required={props.what === "namespace"} value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        <option value="">{props.what === "project" ? t("form.parent.none") : ""}</option>
        <For each={names()}>{(name) => <option value={name} selected={name === props.value}>{text(name)}</option>}</For>
      </select>
      <FieldState state={all.state()} />
      <Show when={props.what === "namespace" && all.state().at === "live" && known().length === 0}><small>{t("projects.none.text")}</small></Show>
    </label>
  );
}
