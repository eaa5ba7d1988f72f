import { useNavigate, useParams } from "@solidjs/router";
import { For, Show, batch, createMemo, createResource, createSignal } from "solid-js";
import type { QuantityText } from "../amounts/quantity";
import { GROUP, request } from "../api/client";
import { pathOfPlace, projects, tenants } from "../api/collections";
import { linkOf } from "../api/links";
import type { Namespace } from "../api/types";
import { isSame } from "../api/writing";
import { type Limits, inForm, limitChanges, rebased } from "../budget/changing";
import { type ClusterLimits, filledIn } from "../budget/offering";
import { chargeOf, inOrder } from "../budget/shares";
import { t } from "../i18n/messages";
import type { Resource } from "../live/feed";
import { AskingForm, type Outgoing, checked } from "../ui/asking";
import { LimitsFields, clusterChoices, leftText } from "../ui/limits";
import { type Meanwhile, fromTo } from "../ui/meanwhile";
import { Head, Loaded } from "../ui/parts";

type Changeable = "projects" | "namespaces" | "tenants";

/** What forms read and write of what they change. */
interface Changed extends Resource {
  spec?: {
    displayName?: string;
    template?: string;
    parentProjectName?: string;
    tenantID?: string;
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
  const offered = clusterChoices(() => base().spec?.parentProjectName ?? "", () => true);
  const choices = () => (isSeveral() ? [...new Set([...Object.keys(before()), ...offered()])].sort(inOrder) : Object.keys(before()));
  const charged = createMemo(() => chargedFor(props.plural, base()));
  /** A root project takes its budget from its tenant. */
  const ruled = props.plural === "projects" ? tenants() : undefined;
  const giver = () => (props.plural === "projects" && above() === "" ? ruled?.objects().get(base().spec?.tenantID ?? "") : all.objects().get(above()));
  const left = (cluster: string, resource: string) => leftText("form.most", giver(), cluster, resource, charged());
  const navigate = useNavigate();
  const back = () => (props.plural === "tenants" ? `/tenants/${name}` : linkOf(name, namespace));
  const sent = createMemo((): Outgoing | undefined => {
    const old = before();
    const patches = Object.fromEntries([
      ...limits().map(({ cluster, amounts }) => [cluster, { hard: withNulls(old[cluster] ?? {}, filledIn(amounts)) }] as const),
      ...Object.keys(old).filter((cluster) => !limits().some((entry) => entry.cluster === cluster)).map((cluster) => [cluster, null] as const),
    ]);
    const texts = NAMES.filter((key) => named()[key] !== namedOf(base())[key]).map((key) => [key, named()[key] || null] as const);
    const isOfLimits = !isSame(asked(limits()), asked(inForm(old)));
    if (!isOfLimits && texts.length === 0) return undefined;
    // Who changes a name alone does not touch the limits, which others may change meanwhile.
    const spec = isSeveral() ? { ...(isOfLimits && { clusters: patches }), ...Object.fromEntries(texts) } : patches[Object.keys(old)[0] ?? ""];
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
      <AskingForm sent={sent()} verdict={verdict()} label={t("form.save")} incomplete={t("people.unchanged")} done={() => navigate(back())} cancel={back()} meanwhile={meanwhile}>
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

/** For a merge patch: what is not wanted any more is null. */
function withNulls(before: Readonly<Record<string, QuantityText>>, after: Readonly<Record<string, string>>): Record<string, string | null> {
  const gone = Object.keys(before).filter((resource) => !(resource in after));
  return { ...after, ...Object.fromEntries(gone.map((resource) => [resource, null])) };
}
