import { useNavigate, useParams, useSearchParams } from "@solidjs/router";
import { For, Show, batch, createEffect, createMemo, createResource, createSignal, untrack } from "solid-js";
import { createStore } from "solid-js/store";
import type { QuantityText } from "../amounts/quantity";
import { GROUP, request } from "../api/client";
import { pathOfPlace, projects } from "../api/collections";
import { linkOf } from "../api/links";
import type { Namespace, Project } from "../api/types";
import { isSame } from "../api/writing";
import { type Limits, inForm, limitChanges, rebased } from "../budget/changing";
import { leftIn } from "../budget/left";
import { type ClusterLimits, emptyLimits, filledIn, offering, placed } from "../budget/offering";
import { chargeOf, inOrder } from "../budget/shares";
import { t } from "../i18n/messages";
import type { Resource } from "../live/feed";
import { AskingForm, type Outgoing, checked } from "../ui/asking";
import { FieldState, MADE } from "../ui/awaited";
import { LimitsFields } from "../ui/limits";
import { type Meanwhile, fromTo } from "../ui/meanwhile";
import { Head, Loaded } from "../ui/parts";
import { said } from "../ui/precision";

type What = "project" | "namespace";

interface Draft {
  name: string;
  displayName: string;
  parent: string;
  tenant: string;
}

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
  const all = projects();
  const left = (cluster: string, resource: string) => told("form.left", all.objects().get(draft.parent), cluster, resource);
  const navigate = useNavigate();
  offerLimited(() => draft.parent, choices, limits, setLimits);
  const sent = createMemo(() => outgoing(params.what, draft, limits()));
  const verdict = checked(sent);
  const done = () => {
    navigate(params.what === "project" ? linkOf(draft.name) : linkOf(`${limits()[0]?.cluster}-${draft.name}`, draft.parent), MADE);
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
        <LimitsFields limits={limits()} choices={choices()} isSeveral={params.what === "project"} set={setLimits} left={left} />
      </AskingForm>
    </>
  );
}

/** A cluster is chosen, and what is limited above is offered, as soon as the project above is known. */
function offerLimited(
  parent: () => string, choices: () => string[], limits: () => readonly ClusterLimits[], set: (limits: readonly ClusterLimits[]) => void,
): void {
  const all = projects();
  /** What is offered of the clusters that are chosen now: whoever comes back to one is offered its own again. */
  let offered: ReadonlySet<string> = new Set();
  createEffect(() => {
    const names = choices();
    const above = all.objects().get(parent())?.spec?.clusters ?? {};
    const wanted = limits();
    untrack(() => {
      const offers = new Set<string>();
      const clusters = placed(wanted.map(({ cluster }) => cluster), names);
      const next = wanted.flatMap((entry, index) => {
        const cluster = clusters[index];
        if (cluster === undefined) return [];
        const limited = Object.keys(above[cluster]?.hard ?? {}).sort(inOrder);
        const offer = [parent(), cluster, ...limited].join();
        const amounts = offering(entry.amounts, limited, offered.has(offer));
        offers.add(offer);
        return [cluster === entry.cluster && amounts === entry.amounts ? entry : { cluster, amounts }];
      });
      offered = offers;
      if (next.length !== wanted.length || next.some((entry, index) => entry !== wanted[index])) set(next);
    });
  });
}

type Changeable = "projects" | "namespaces" | "tenants";

/** What forms read and write of what they change. */
interface Changed extends Resource {
  spec?: {
    displayName?: string;
    template?: string;
    parentProjectName?: string;
    clusters?: Record<string, { hard?: Record<string, QuantityText> }>;
    clusterName?: string;
    hard?: Record<string, QuantityText>;
  };
}

/** Other amounts, and another name, for what is there. */
export function Change() {
  const params = useParams<{ plural: Changeable; place: string }>();
  // Keyed: from one place to another Back and Forward keep the page, and a form is of one object.
  return <Show keyed when={`${params.plural}/${params.place}`}><ChangeOf plural={params.plural} place={params.place} /></Show>;
}

function ChangeOf({ plural, place }: { plural: Changeable; place: string }) {
  const path = pathOfPlace(plural, place);
  const [found, { refetch }] = createResource(() => request<Changed>(path));
  return (
    <Loaded of={found} again={refetch}>
      {(object) => <ChangeForm object={object()} plural={plural} path={path} />}
    </Loaded>
  );
}

/** The limits of an object: of each cluster, or, of a namespace, of its own. */
function limitsOf(plural: Changeable, { spec }: Changed): Limits {
  if (plural === "namespaces") return { [spec?.clusterName ?? ""]: spec?.hard ?? {} };
  return Object.fromEntries(Object.entries(spec?.clusters ?? {}).map(([cluster, { hard = {} }]) => [cluster, hard]));
}

const asked = (limits: readonly ClusterLimits[]) => Object.fromEntries(limits.map(({ cluster, amounts }) => [cluster, filledIn(amounts)]));

/** What counts above for it already. */
function chargedFor(plural: Changeable, object: Changed): Limits {
  if (plural === "namespaces") return { [object.spec?.clusterName ?? ""]: chargeOf(object as Namespace) ?? {} };
  return limitsOf(plural, object);
}

/** What people read of it, beside its limits. */
const NAMED = { displayName: "form.display", template: "form.template" } as const;
type Named = Record<keyof typeof NAMED, string>;
const namedOf = ({ spec }: Changed): Named => ({ displayName: spec?.displayName ?? "", template: spec?.template ?? "" });
const NAMES = Object.keys(NAMED) as (keyof Named)[];

function ChangeForm(props: { object: Changed; plural: Changeable; path: string }) {
  const isSeveral = () => props.plural !== "namespaces";
  const { name, namespace } = props.object.metadata;
  const [base, setBase] = createSignal(props.object);
  const before = createMemo(() => limitsOf(props.plural, base()));
  const [limits, setLimits] = createSignal<readonly ClusterLimits[]>(inForm(before()));
  const [named, setNamed] = createSignal(namedOf(props.object));
  const all = projects();
  const above = () => (isSeveral() ? (base().spec?.parentProjectName ?? "") : (namespace ?? ""));
  const offered = clusterChoices(() => base().spec?.parentProjectName ?? "", () => "project");
  const choices = () => (isSeveral() ? [...new Set([...Object.keys(before()), ...offered()])].sort(inOrder) : Object.keys(before()));
  const charged = createMemo(() => chargedFor(props.plural, base()));
  const left = (cluster: string, resource: string) => told("form.most", all.objects().get(above()), cluster, resource, charged());
  const navigate = useNavigate();
  const back = () => (props.plural === "tenants" ? `/tenants/${name}` : linkOf(name, namespace));
  const sent = createMemo((): Outgoing => {
    const old = before();
    const patches = Object.fromEntries([
      ...limits().map(({ cluster, amounts }) => [cluster, { hard: withNulls(old[cluster] ?? {}, filledIn(amounts)) }] as const),
      ...Object.keys(old).filter((cluster) => !limits().some((entry) => entry.cluster === cluster)).map((cluster) => [cluster, null] as const),
    ]);
    const texts = NAMES.filter((key) => named()[key] !== namedOf(base())[key]).map((key) => [key, named()[key] || null] as const);
    // Who changes a name alone does not touch the limits, which others may change meanwhile.
    const isNameAlone = texts.length > 0 && isSame(asked(limits()), asked(inForm(old)));
    const spec = isSeveral() ? { ...(!isNameAlone && { clusters: patches }), ...Object.fromEntries(texts) } : patches[Object.keys(old)[0] ?? ""];
    return { method: "PATCH", path: props.path, body: { metadata: { resourceVersion: base().metadata.resourceVersion }, spec }, base: base() };
  });
  const meanwhile: Meanwhile = {
    told: (fresh) => [
      ...limitChanges(before(), limitsOf(props.plural, fresh as Changed)).map((one) => fromTo(`${one.cluster} · ${one.resource}`, one.before, one.after)),
      ...NAMES.filter((key) => namedOf(base())[key] !== namedOf(fresh as Changed)[key]).map((key) => fromTo(t(NAMED[key]), namedOf(base())[key], namedOf(fresh as Changed)[key])),
    ],
    take: (fresh) => batch(() => {
      const [old, now] = [namedOf(base()), namedOf(fresh as Changed)];
      setLimits(rebased(before(), limits(), limitsOf(props.plural, fresh as Changed)));
      setNamed({ ...now, ...Object.fromEntries(NAMES.filter((key) => named()[key] !== old[key]).map((key) => [key, named()[key]])) });
      setBase(fresh as Changed);
    }),
  };
  const verdict = checked(sent);
  return (
    <>
      <Head title={t("form.change", { name })} under={namespace ?? ""} />
      <AskingForm sent={sent()} verdict={verdict()} label={t("form.save")} incomplete={t("form.incomplete")} done={() => navigate(back())} cancel={back()} meanwhile={meanwhile}>
        <Show when={isSeveral()}><NamedFields named={named()} set={setNamed} /></Show>
        <LimitsFields limits={limits()} choices={choices()} isSeveral={isSeveral()} set={setLimits} left={left} />
      </AskingForm>
    </>
  );
}

function NamedFields(props: { named: Named; set: (named: Named) => void }) {
  const [templates] = createResource(() => request<{ items: Resource[] }>(`${GROUP}/namespacetemplates`).catch(() => ({ items: [] })));
  return (
    <>
      <label class="field">
        <span>{t("form.display")}</span>
        <input value={props.named.displayName} onInput={(event) => props.set({ ...props.named, displayName: event.currentTarget.value })} />
      </label>
      <label class="field">
        <span>{t("form.template")}</span>
        <input list="templates" autocomplete="off" value={props.named.template} onInput={(event) => props.set({ ...props.named, template: event.currentTarget.value })} />
        <small>{t("form.template.help")}</small>
      </label>
      <datalist id="templates"><For each={templates.latest?.items}>{({ metadata }) => <option value={metadata.name} />}</For></datalist>
    </>
  );
}

/** What a project has left, in words. */
function told(key: "form.left" | "form.most", project: Project | undefined, cluster: string, resource: string, own?: Limits): string | undefined {
  const left = leftIn(project, cluster, resource, own);
  return left === undefined ? undefined : t(key, { amount: said(left, resource), project: project?.metadata.name ?? "" });
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
      <Show when={props.what === "namespace" && all.state().at === "live" && names().length === 0}><small>{t("projects.none.text")}</small></Show>
    </label>
  );
}
