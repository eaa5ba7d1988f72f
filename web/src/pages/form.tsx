import { A, useNavigate, useParams, useSearchParams } from "@solidjs/router";
import { For, Show, createEffect, createMemo, createResource, createSignal, on, onCleanup, untrack } from "solid-js";
import { createStore } from "solid-js/store";
import { forPeople } from "../amounts/people";
import { type QuantityText, parseAmount } from "../amounts/quantity";
import { GROUP, type Method, request } from "../api/client";
import { pathOf, projects } from "../api/collections";
import { ApiError, type LevelCause, levelsOf } from "../api/status";
import type { Namespace, Project } from "../api/types";
import { t } from "../i18n/messages";
import { Bar, Head, Problem } from "../ui/parts";
import { messageOf } from "../ui/acts";

type What = "project" | "namespace";

interface Draft {
  name: string;
  displayName: string;
  parent: string;
  tenant: string;
  cluster: string;
  amounts: { resource: string; amount: string }[];
}

const COMMON = ["requests.cpu", "requests.memory", "limits.cpu", "limits.memory", "requests.storage", "pods"];
/** So long nobody types before the server is asked. */
const PAUSE_MS = 350;

/** What would be sent. */
interface Outgoing {
  method: Method;
  path: string;
  body: unknown;
}

type Verdict = { is: "incomplete" } | { is: "checking" } | { is: "fits" } | { is: "refused"; error: unknown };

function outgoing(what: What, draft: Draft): Outgoing | undefined {
  const hard = Object.fromEntries(draft.amounts.filter(({ resource, amount }) => resource && amount).map(({ resource, amount }) => [resource, amount]));
  if (!draft.name || !draft.cluster) return undefined;
  const apiVersion = "business.tkestack.io/v1";
  if (what === "project") {
    const spec = {
      displayName: draft.displayName || draft.name,
      ...(draft.parent ? { parentProjectName: draft.parent } : {}),
      ...(draft.tenant ? { tenantID: draft.tenant } : {}),
      clusters: { [draft.cluster]: { hard } },
    };
    return { method: "POST", path: `${GROUP}/projects`, body: { apiVersion, kind: "Project", metadata: { name: draft.name }, spec } };
  }
  if (!draft.parent) return undefined;
  const metadata = { name: `${draft.cluster}-${draft.name}`, namespace: draft.parent };
  const spec = { clusterName: draft.cluster, namespace: draft.name, hard };
  const path = `${GROUP}/namespaces/${encodeURIComponent(draft.parent)}/namespaces`;
  return { method: "POST", path, body: { apiVersion, kind: "Namespace", metadata, spec } };
}

/** Something new. The server says while one types whether it would take it. */
export function Create() {
  const params = useParams<{ what: What }>();
  const [query] = useSearchParams<{ project?: string; parent?: string }>();
  const [draft, change] = createStore<Draft>({
    name: "", displayName: "", parent: query.project ?? query.parent ?? "", tenant: "", cluster: "",
    amounts: [{ resource: "requests.cpu", amount: "" }, { resource: "requests.memory", amount: "" }],
  });
  const navigate = useNavigate();
  offerLimited(draft, (rows) => change("amounts", rows));
  const sent = createMemo(() => outgoing(params.what, draft));
  const verdict = checked(sent);
  const done = () => {
    const name = params.what === "project" ? draft.name : `${draft.cluster}-${draft.name}`;
    navigate(params.what === "project" ? `/projects/${name}` : `/projects/${draft.parent}/namespaces/${name}`);
  };
  return (
    <>
      <Head title={t(params.what === "project" ? "form.project" : "form.namespace")} />
      <Form sent={sent()} verdict={verdict()} label={t("form.create")} done={done} cancel={draft.parent ? `/projects/${draft.parent}` : "/"}>
        <label class="field">
          <span>{t("form.name")}</span>
          <input required maxlength="63" pattern="[a-z0-9]([-a-z0-9]*[a-z0-9])?" value={draft.name} autocomplete="off"
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
        <ClusterField parent={draft.parent} value={draft.cluster} onChange={(value) => change("cluster", value)} />
        <Amounts rows={draft.amounts} set={(rows) => change("amounts", rows)} />
      </Form>
    </>
  );
}

/** A resource that is limited above has to be named: it is offered, until somebody has begun to fill in amounts. */
function offerLimited(draft: Draft, offer: (rows: AmountRow[]) => void): void {
  const all = projects();
  createEffect(() => {
    const limited = Object.keys(all.objects().get(draft.parent)?.spec?.clusters?.[draft.cluster]?.hard ?? {});
    if (limited.length > 0 && untrack(() => draft.amounts.every(({ amount }) => amount === ""))) {
      offer(limited.sort().map((resource) => ({ resource, amount: "" })));
    }
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
  const limits = (): Record<string, Record<string, QuantityText>> =>
    isProject()
      ? Object.fromEntries(Object.entries(props.object.spec?.clusters ?? {}).map(([cluster, { hard = {} }]) => [cluster, hard]))
      : { [props.object.spec?.clusterName ?? ""]: props.object.spec?.hard ?? {} };
  const [wanted, change] = createStore(
    Object.entries(limits()).map(([cluster, hard]) => ({ cluster, amounts: Object.entries(hard).map(([resource, amount]) => ({ resource, amount: String(amount) })) })),
  );
  const navigate = useNavigate();
  const { name, namespace, resourceVersion } = props.object.metadata;
  const back = () => (isProject() ? `/projects/${name}` : `/projects/${namespace}/namespaces/${name}`);
  const sent = createMemo((): Outgoing => {
    const patched = (cluster: string) => {
      const now = wanted.find((entry) => entry.cluster === cluster)?.amounts.filter(({ resource, amount }) => resource && amount) ?? [];
      const gone = Object.keys(limits()[cluster] ?? {}).filter((resource) => !now.some((row) => row.resource === resource));
      return Object.fromEntries([...now.map(({ resource, amount }) => [resource, amount]), ...gone.map((resource) => [resource, null])]);
    };
    const spec = isProject()
      ? { clusters: Object.fromEntries(wanted.map(({ cluster }) => [cluster, { hard: patched(cluster) }])) }
      : { hard: patched(props.object.spec?.clusterName ?? "") };
    return { method: "PATCH", path: props.path, body: { metadata: { resourceVersion }, spec } };
  });
  const verdict = checked(sent);
  return (
    <>
      <Head title={t("form.change", { name })} under={namespace ?? ""} />
      <Form sent={sent()} verdict={verdict()} label={t("form.save")} done={() => navigate(back())} cancel={back()}>
        <For each={wanted}>
          {(entry, index) => (
            <section class="stairs" aria-label={entry.cluster}>
              <h2>{entry.cluster}</h2>
              <Amounts rows={entry.amounts} set={(rows) => change(index(), "amounts", rows)} />
            </section>
          )}
        </For>
      </Form>
    </>
  );
}

/** Asks the server by a dry run, when nobody types any more. */
function checked(sent: () => Outgoing | undefined): () => Verdict {
  const [verdict, tell] = createSignal<Verdict>({ is: "incomplete" });
  createEffect(on(sent, (wanted) => {
    if (!wanted) {
      tell({ is: "incomplete" });
      return;
    }
    tell({ is: "checking" });
    const abort = new AbortController();
    const timer = setTimeout(() => {
      request(`${wanted.path}?dryRun=All`, { method: wanted.method, body: wanted.body, signal: abort.signal }).then(
        () => tell({ is: "fits" }),
        (error: unknown) => {
          if (!abort.signal.aborted) tell({ is: "refused", error });
        },
      );
    }, PAUSE_MS);
    onCleanup(() => {
      clearTimeout(timer);
      abort.abort();
    });
  }));
  return verdict;
}

function Form(props: {
  sent: Outgoing | undefined;
  verdict: Verdict;
  label: string;
  cancel: string;
  done: () => void;
  children: unknown;
}) {
  const [busy, setBusy] = createSignal(false);
  const [error, setError] = createSignal<unknown>();
  const [yaml] = createResource(() => props.sent?.body ?? {}, async (body) => (await import("yaml")).stringify(body));
  createEffect(on(() => props.sent, () => setError(undefined)));
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (!props.sent) return;
    setBusy(true);
    try {
      await request(props.sent.path, { method: props.sent.method, body: props.sent.body });
      props.done();
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  const refusal = () => error() ?? (props.verdict.is === "refused" ? props.verdict.error : undefined);
  return (
    <div class="cards">
      <form class="card" onSubmit={(event) => void submit(event)}>
        {props.children as never}
        <div class="row">
          <button class="button main" type="submit" disabled={busy() || !props.sent}>{props.label}</button>
          <A class="button" href={props.cancel}>{t("form.cancel")}</A>
        </div>
      </form>
      <div class="stairs">
        <div aria-live="polite">
          <Show when={refusal()} fallback={<Answer verdict={props.verdict} />}>{(refused) => <Refusal error={refused()} />}</Show>
        </div>
        <section class="card" aria-label={t("form.yaml")}>
          <h2>{t("form.yaml")}</h2>
          <pre tabindex="0">{yaml.latest}</pre>
        </section>
      </div>
    </div>
  );
}

function Answer(props: { verdict: Verdict }) {
  return (
    <Show when={props.verdict.is === "fits"} fallback={<p class="quiet">{t(props.verdict.is === "checking" ? "form.checking" : "form.incomplete")}</p>}>
      <p class="notice good">{t("form.fits")}</p>
    </Show>
  );
}

/** The levels that said no, as bars: what is given away, and what was asked beyond. */
export function Refusal(props: { error: unknown }) {
  const told = () => levelsOf(props.error instanceof ApiError ? props.error.causes : []);
  return (
    <section class="stairs" role="alert" aria-label={t("form.refused")}>
      <h2>{t("form.refused")}</h2>
      <For each={told().levels} fallback={<p class="notice bad">{messageOf(props.error)}</p>}>{(level) => <Stair level={level} />}</For>
      <Show when={told().levels.length > 0}>
        <p class="quiet">{messageOf(props.error)}</p>
        <For each={told().others}>{(cause) => <p class="notice">{cause.field}: {cause.message}</p>}</For>
      </Show>
    </section>
  );
}

function Stair(props: { level: LevelCause }) {
  const level = () => props.level;
  const asked = () => level().allocated + level().requested;
  const share = () => ({ cluster: level().cluster, resource: level().resource, hard: level().hard, allocated: asked(), used: level().allocated });
  const word = () => t(level().reason === "BelowAllocated" ? "refusal.below" : "refusal.fits", {
    resource: level().resource,
    requested: forPeople(level().requested, level().resource), allocated: forPeople(level().allocated, level().resource),
    hard: forPeople(level().hard, level().resource), fits: forPeople(level().fits, level().resource),
  });
  return (
    <div class="stair">
      <strong>{t(`refusal.level.${level().level as "project"}`, { name: level().name })}</strong>
      <Bar share={share()} label={word()} />
      <span>{word()}</span>
    </div>
  );
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
    </label>
  );
}

/** Those of the project, or, without one, those that are offered. */
function ClusterField(props: { parent: string; value: string; onChange: (value: string) => void }) {
  const all = projects();
  const [offers] = createResource(() => request<{ items: { metadata: { name: string } }[] }>(`${GROUP}/clusteroffers`).catch(() => ({ items: [] })));
  const names = () => {
    const parent = all.objects().get(props.parent);
    const own = Object.keys(parent?.spec?.clusters ?? {}).filter((name) => name !== "registry");
    return parent ? own : (offers()?.items.map(({ metadata }) => metadata.name) ?? []);
  };
  createEffect(() => {
    const [first] = names();
    if (first !== undefined && !names().includes(props.value)) props.onChange(first);
  });
  return (
    <label class="field">
      <span>{t("form.cluster")}</span>
      <select required value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        <For each={names()}>{(name) => <option value={name} selected={name === props.value}>{name}</option>}</For>
      </select>
    </label>
  );
}

type AmountRow = { resource: string; amount: string };

function Amounts(props: { rows: readonly AmountRow[]; set: (rows: AmountRow[]) => void }) {
  const put = (index: number, row: Partial<AmountRow>) => props.set(props.rows.map((old, at) => (at === index ? { ...old, ...row } : old)));
  return (
    <fieldset>
      <legend>{t("form.amounts")}</legend>
      <For each={props.rows.map((_, index) => index)}>
        {(index) => {
          const row = () => props.rows[index] ?? { resource: "", amount: "" };
          return (
            <div class="amount">
              <input aria-label={t("form.resource")} list="resources" value={row().resource}
                onChange={(event) => put(index, { resource: event.currentTarget.value })} />
              <input aria-label={t("form.amount.of", { resource: row().resource })} value={row().amount} autocomplete="off"
                aria-invalid={row().amount !== "" && parseAmount(row().amount) === undefined}
                onInput={(event) => put(index, { amount: event.currentTarget.value })} />
              <button class="button" type="button" aria-label={t("form.amount.remove", { resource: row().resource })}
                onClick={() => props.set(props.rows.filter((_, at) => at !== index))}>−</button>
            </div>
          );
        }}
      </For>
      <datalist id="resources"><For each={COMMON}>{(name) => <option value={name} />}</For></datalist>
      <div><button class="button" type="button" onClick={() => props.set([...props.rows, { resource: "", amount: "" }])}>{t("form.amounts.add")}</button></div>
    </fieldset>
  );
}
