import { useNavigate, useParams } from "@solidjs/router";
import { For, Show, batch, createMemo, createResource, createSignal } from "solid-js";
import { request } from "../api/client";
import { pathOf, tenants } from "../api/collections";
import type { Platform, Project, Tenant } from "../api/types";
import { t } from "../i18n/messages";
import { PERSON_KINDS, type PeopleChange, type Person, type PersonKind, ROLES, type Role, changesOf, isComplete, nameOf, peopleOf, rebasePeople, toApi, trimmed, user } from "../people/person";
import { DryRunForm, type WriteRequest, createDryRun } from "../ui/dryrun";
import type { ConflictHandler } from "../ui/conflict";
import { ErrorCard, PageHeader, ResourceBoundary, notFoundError } from "../ui/parts";

type ObjectWithPeople = Project | Tenant | Platform;

/** How a kind stores people and their roles. */
interface PeopleOf {
  kinds: readonly PersonKind[];
  hasRoles: boolean;
  title: (name: string) => string;
  back: (object: ObjectWithPeople, tenants: ReadonlyMap<string, Tenant>) => string;
  read: (object: ObjectWithPeople) => Person[];
  /** `spec` of the merge patch from one list to the other. */
  write: (people: readonly Person[], before: readonly Person[]) => object;
}

const PEOPLE_OF: Record<string, PeopleOf> = {
  projects: {
    kinds: PERSON_KINDS,
    hasRoles: true,
    title: (name) => t("people.title", { name }),
    back: ({ metadata }) => `/projects/${metadata.name}`,
    read: (object) => peopleOf(object as Project),
    write: (people, before) => {
      const members = (all: readonly Person[]) => all.filter(({ member }) => member).map(({ name }) => name);
      const isTouched = members(people).join("\n") !== members(before).join("\n");
      return { access: people.filter(({ member }) => !member).map((one) => toApi(one, true)), ...(isTouched && { members: members(people) }) };
    },
  },
  tenants: {
    kinds: PERSON_KINDS,
    hasRoles: false,
    title: (name) => t("people.tenant", { name }),
    back: ({ metadata }) => `/tenants/${metadata.name}`,
    read: ({ spec }) => ((spec as Tenant["spec"])?.administrators ?? []).map(({ kind, name, namespace = "" }) =>
      ({ kind, name, namespace, cluster: "", role: "admin", member: false })),
    write: (people) => ({ administrators: people.map((one) => toApi(one, false)) }),
  },
  platforms: {
    kinds: ["User"],
    hasRoles: false,
    title: (name) => t("people.platform", { name }),
    // A tenant has a page only if it has an object.
    back: ({ metadata, spec }, all) => {
      const tenant = (spec as Platform["spec"])?.tenantID ?? "";
      return all.has(tenant) ? `/tenants/${tenant}` : `/review/platforms/${metadata.name}`;
    },
    read: ({ spec }) => ((spec as Platform["spec"])?.administrators ?? []).map((name) => user(name, "admin")),
    write: (people) => ({ administrators: people.map(({ name }) => name) }),
  },
};

/** Adds, changes and removes people in one write, checked by a dry run. */
export function People() {
  const params = useParams<{ plural: string; name: string }>();
  // Keyed, since Back and Forward from one object to another keep the component, but a form belongs to one object.
  return (
    <Show keyed when={`${params.plural}/${params.name}`}>
      <Show when={PEOPLE_OF[params.plural]} fallback={<ErrorCard error={notFoundError(params.plural)} />}>
        {(of) => <PeopleIn of={of()} path={pathOf(params.plural, params.name)} />}
      </Show>
    </Show>
  );
}

function PeopleIn({ of, path }: { of: PeopleOf; path: string }) {
  const [object, { refetch }] = createResource(() => request<ObjectWithPeople>(path));
  return (
    <ResourceBoundary of={object} retry={refetch}>
      {(found) => <PeopleForm object={found()} of={of} path={path} />}
    </ResourceBoundary>
  );
}

function PeopleForm(props: { object: ObjectWithPeople; of: PeopleOf; path: string }) {
  const [base, setBase] = createSignal(props.object);
  const before = createMemo(() => props.of.read(base()));
  const [people, setPeople] = createSignal<readonly Person[]>(before());
  const named = createMemo(() => trimmed(people(), before()));
  const isUnfinished = () => !named().every(isComplete);
  const changes = createMemo(() => changesOf(before(), named().filter(isComplete)));
  const say = ({ is, who, role }: PeopleChange) => t(`people.${is}`, { who, role: props.of.hasRoles ? role : "admin" });
  const onConflict: ConflictHandler = {
    describe: (fresh) => changesOf(before(), props.of.read(fresh as ObjectWithPeople)).map(say),
    rebase: (fresh) => batch(() => {
      setPeople(rebasePeople(before(), people(), props.of.read(fresh as ObjectWithPeople)));
      setBase(() => fresh as ObjectWithPeople);
    }),
  };
  const navigate = useNavigate();
  const ruled = tenants();
  const back = () => props.of.back(props.object, ruled.objects());
  const sent = createMemo((): WriteRequest | undefined => {
    if (changes().length === 0 || isUnfinished()) return undefined;
    const { resourceVersion } = base().metadata;
    return { method: "PATCH", path: props.path, body: { metadata: { resourceVersion }, spec: props.of.write(named(), before()) }, base: base() };
  });
  const verdict = createDryRun(sent);
  const put = (at: number, change: Partial<Person>) => setPeople(people().map((one, index) => (index === at ? { ...one, ...change } : one)));
  const add = () => setPeople([...people(), user("", props.of.hasRoles ? "view" : "admin")]);
  return (
    <>
      <PageHeader title={props.of.title(props.object.metadata.name)} />
      <DryRunForm sent={sent()} verdict={verdict()} label={t("form.save")} incomplete={t(isUnfinished() ? "people.incomplete" : "people.unchanged")}
        fits={t("people.fits")} done={() => navigate(back())} cancel={back()} onConflict={onConflict}>
        <div class="people">
          <For each={people().map((_, index) => index)} fallback={<p class="quiet">{t("people.nobody")}</p>}>
            {(index) => (
              <PersonFields person={people()[index] ?? user("", "view")} of={props.of} put={(change) => put(index, change)}
                remove={() => setPeople(people().filter((_, at) => at !== index))} />
            )}
          </For>
          <div><button class="button" type="button" onClick={add}>{t("people.add")}</button></div>
        </div>
        <Show when={changes().length > 0}>
          <section class="stairs" aria-label={t("people.changes")}>
            <h2>{t("people.changes")}</h2>
            <ul class="stairs">
              <For each={changes()}>{(change) => <li>{say(change)}</li>}</For>
            </ul>
          </section>
        </Show>
        <Meaning hasRoles={props.of.hasRoles} isTaking={changes().some(({ is }) => is !== "given")} />
      </DryRunForm>
    </>
  );
}

function PersonFields(props: { person: Person; of: PeopleOf; put: (change: Partial<Person>) => void; remove: () => void }) {
  const isAccount = () => props.person.kind === "ServiceAccount";
  return (
    <div class="person" classList={{ alike: !props.of.hasRoles }} role="group" aria-label={nameOf(props.person)}>
      <label class="field">
        <span>{t("column.kind")}</span>
        <Show when={!props.person.member} fallback={<input disabled value={t("people.member")} />}>
          <select value={props.person.kind} onChange={(event) => props.put({ kind: event.currentTarget.value as PersonKind, namespace: "", cluster: "" })}>
            <For each={props.of.kinds}>{(kind) => <option value={kind} selected={kind === props.person.kind}>{t(`kind.${kind}`)}</option>}</For>
          </select>
        </Show>
      </label>
      <label class="field">
        <span>{t("column.name")}</span>
        <input required maxlength="1024" autocomplete="off" disabled={props.person.member} value={props.person.name}
          onInput={(event) => props.put({ name: event.currentTarget.value })} />
      </label>
      <Show when={props.of.hasRoles}>
        <label class="field">
          <span>{t("column.role")}</span>
          <select disabled={props.person.member} value={props.person.role} onChange={(event) => props.put({ role: event.currentTarget.value as Role })}>
            <For each={ROLES}>{(role) => <option value={role} selected={role === props.person.role}>{role}</option>}</For>
          </select>
        </label>
      </Show>
      <button class="button" type="button" aria-label={t("people.remove", { who: nameOf(props.person) })} onClick={props.remove}>−</button>
      <Show when={isAccount()}>
        <label class="field place">
          <span>{t("people.namespace")}</span>
          <input required autocomplete="off" value={props.person.namespace} onInput={(event) => props.put({ namespace: event.currentTarget.value })} />
        </label>
        <Show when={props.of.hasRoles}>
          <label class="field place">
            <span>{t("people.cluster")}</span>
            <input autocomplete="off" placeholder={t("people.cluster.host")} value={props.person.cluster} onInput={(event) => props.put({ cluster: event.currentTarget.value })} />
          </label>
        </Show>
      </Show>
    </div>
  );
}

/** What each role allows, and what remains when one is removed. */
function Meaning(props: { hasRoles: boolean; isTaking: boolean }) {
  return (
    <div class="stairs quiet">
      <Show when={props.hasRoles} fallback={<p>{t("people.tenant.means")}</p>}>
        <dl class="facts"><For each={ROLES}>{(role) => <><dt class="mono">{role}</dt><dd>{t(`role.${role}`)}</dd></>}</For></dl>
        <p>{t("people.below")}</p>
      </Show>
      <Show when={props.isTaking && props.hasRoles}><p class="notice">{t("people.stays")}</p></Show>
    </div>
  );
}
