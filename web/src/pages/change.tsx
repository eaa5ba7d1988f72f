import { useNavigate, useParams } from "@solidjs/router";
import { For, Show, batch, createMemo, createResource, createSignal } from "solid-js";
import type { QuantityText } from "../amounts/quantity";
import { GROUP, request } from "../api/client";
import { pathOfRoute, projects, tenants } from "../api/collections";
import { linkOf } from "../api/links";
import type { Namespace } from "../api/types";
import { isEqual } from "../api/write";
import { type Limits, isEmptied, limitChanges, limitsTakenOut, rebaseLimits, toFormLimits } from "../budget/edits";
import { type ClusterLimits, filledAmounts } from "../budget/form";
import { chargeOf, compareNames } from "../budget/shares";
import { t } from "../i18n/messages";
import type { Resource } from "../live/feed";
import { DryRunForm, type WriteRequest, createDryRun } from "../ui/dryrun";
import { createNames } from "../ui/lookup";
import { LimitsFields, clusterChoices, remainingText } from "../ui/limits";
import { type ConflictHandler, fromTo } from "../ui/conflict";
import { PageHeader, ResourceBoundary } from "../ui/parts";

type Changeable = "projects" | "namespaces" | "tenants";

/** The fields that the form reads and writes. */
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

/** Changes the limits and the name of an object. */
export function Change() {
  const params = useParams<{ plural: Changeable; place: string }>();
  // Keyed, since Back and Forward from one object to another keep the component, but a form belongs to one object.
  return <Show keyed when={`${params.plural}/${params.place}`}><ChangeOf plural={params.plural} place={params.place} /></Show>;
}

function ChangeOf({ plural, place }: { plural: Changeable; place: string }) {
  const path = pathOfRoute(plural, place);
  const [found, { refetch }] = createResource(() => request<Changed>(path));
  return (
    <ResourceBoundary of={found} retry={refetch}>
      {(object) => <ChangeForm object={object()} plural={plural} path={path} />}
    </ResourceBoundary>
  );
}

/** The limits of an object by cluster; a namespace has one cluster. */
function limitsOf(plural: Changeable, { spec }: Changed): Limits {
  if (plural === "namespaces") return { [spec?.clusterName ?? ""]: spec?.hard ?? {} };
  return Object.fromEntries(Object.entries(spec?.clusters ?? {}).map(([cluster, { hard = {} }]) => [cluster, hard]));
}

const asked = (limits: readonly ClusterLimits[]) => Object.fromEntries(limits.map(({ cluster, amounts }) => [cluster, filledAmounts(amounts)]));

/** What the parent is charged for the object already. */
function chargedFor(plural: Changeable, object: Changed): Limits {
  if (plural === "namespaces") return { [object.spec?.clusterName ?? ""]: chargeOf(object as Namespace) ?? {} };
  return limitsOf(plural, object);
}

/** The text fields of the form, with their labels. */
const NAMED = { displayName: "form.display", template: "form.template" } as const;
type Named = Record<keyof typeof NAMED, string>;
const namedOf = ({ spec }: Changed): Named => ({ displayName: spec?.displayName ?? "", template: spec?.template ?? "" });
const NAMES = Object.keys(NAMED) as (keyof Named)[];

function ChangeForm(props: { object: Changed; plural: Changeable; path: string }) {
  const isSeveral = () => props.plural !== "namespaces";
  const { name, namespace } = props.object.metadata;
  const [base, setBase] = createSignal(props.object);
  const before = createMemo(() => limitsOf(props.plural, base()));
  const [limits, setLimits] = createSignal<readonly ClusterLimits[]>(toFormLimits(before()));
  const [named, setNamed] = createSignal(namedOf(props.object));
  const all = projects();
  const above = () => (isSeveral() ? (base().spec?.parentProjectName ?? "") : (namespace ?? ""));
  const offered = clusterChoices(() => base().spec?.parentProjectName ?? "", () => true);
  const choices = () => (isSeveral() ? [...new Set([...Object.keys(before()), ...offered.names()])].sort(compareNames) : Object.keys(before()));
  const charged = createMemo(() => chargedFor(props.plural, base()));
  /** A root project takes its budget from its tenant. */
  const ruled = props.plural === "projects" ? tenants() : undefined;
  const source = () => (props.plural === "projects" && above() === "" ? ruled?.objects().get(base().spec?.tenantID ?? "") : all.objects().get(above()));
  const left = (cluster: string, resource: string) => remainingText("form.most", source(), cluster, resource, charged());
  const navigate = useNavigate();
  const back = () => (props.plural === "tenants" ? `/tenants/${name}` : linkOf(name, namespace));
  const isIncomplete = createMemo(() => limits().some((entry) => entry.amounts.some((_, at) => isEmptied(before(), entry, at))));
  const takenOut = createMemo(() => limitsTakenOut(before(), limits()).map(({ cluster, resource }) => `${cluster} · ${resource}`));
  const sent = createMemo((): WriteRequest | undefined => {
    if (isIncomplete()) return undefined;
    const old = before();
    const patches = Object.fromEntries([
      ...limits().map(({ cluster, amounts }) => [cluster, { hard: withNulls(old[cluster] ?? {}, filledAmounts(amounts)) }] as const),
      ...Object.keys(old).filter((cluster) => !limits().some((entry) => entry.cluster === cluster)).map((cluster) => [cluster, null] as const),
    ]);
    const texts = NAMES.filter((key) => named()[key] !== namedOf(base())[key]).map((key) => [key, named()[key] || null] as const);
    const isOfLimits = !isEqual(asked(limits()), asked(toFormLimits(old)));
    if (!isOfLimits && texts.length === 0) return undefined;
    // Send limits only if they have changed: others may change them at the same time.
    const spec = isSeveral() ? { ...(isOfLimits && { clusters: patches }), ...Object.fromEntries(texts) } : patches[Object.keys(old)[0] ?? ""];
    return { method: "PATCH", path: props.path, body: { metadata: { resourceVersion: base().metadata.resourceVersion }, spec }, base: base() };
  });
  const onConflict: ConflictHandler = {
    describe: (fresh) => [
      ...limitChanges(before(), limitsOf(props.plural, fresh as Changed)).map((one) => fromTo(`${one.cluster} · ${one.resource}`, one.before, one.after)),
      ...NAMES.filter((key) => namedOf(base())[key] !== namedOf(fresh as Changed)[key]).map((key) => fromTo(t(NAMED[key]), namedOf(base())[key], namedOf(fresh as Changed)[key])),
    ],
    rebase: (fresh) => batch(() => {
      const [old, now] = [namedOf(base()), namedOf(fresh as Changed)];
      setLimits(rebaseLimits(before(), limits(), limitsOf(props.plural, fresh as Changed)));
      setNamed({ ...now, ...Object.fromEntries(NAMES.filter((key) => named()[key] !== old[key]).map((key) => [key, named()[key]])) });
      setBase(fresh as Changed);
    }),
  };
  const verdict = createDryRun(sent);
  return (
    <>
      <PageHeader title={t("form.change", { name })} under={namespace ?? ""} />
      <DryRunForm sent={sent()} verdict={verdict()} label={t("form.save")} incomplete={t(isIncomplete() ? "form.incomplete.amount" : "people.unchanged")} done={() => navigate(back())} cancel={back()} onConflict={onConflict}>
        <Show when={isSeveral()}><NamedFields named={named()} set={setNamed} /></Show>
        <LimitsFields limits={limits()} choices={choices()} why={isSeveral() ? offered.why() : undefined} isSeveral={isSeveral()} set={setLimits} before={before()} left={left} />
        <Show when={takenOut().length > 0}><p class="notice" role="status">{t("form.limits.none", { limits: takenOut().join(", ") })}</p></Show>
      </DryRunForm>
    </>
  );
}

function NamedFields(props: { named: Named; set: (named: Named) => void }) {
  const templates = createNames(`${GROUP}/namespacetemplates`);
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
      <datalist id="templates"><For each={templates.names()}>{(name) => <option value={name} />}</For></datalist>
    </>
  );
}

/** The merge patch of the amounts: removed resources are null. */
function withNulls(before: Readonly<Record<string, QuantityText>>, after: Readonly<Record<string, string>>): Record<string, string | null> {
  const gone = Object.keys(before).filter((resource) => !(resource in after));
  return { ...after, ...Object.fromEntries(gone.map((resource) => [resource, null])) };
}
