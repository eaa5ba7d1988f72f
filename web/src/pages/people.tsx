import { useNavigate, useParams } from "@solidjs/router";
import { For, Show, batch, createMemo, createResource, createSignal } from "solid-js";
import { request } from "../api/client";
import { pathOf } from "../api/collections";
import type { Platform, Project, Tenant } from "../api/types";
import { t } from "../i18n/messages";
import { type PeopleChange, type Person, PERSON_KINDS, type PersonKind, ROLES, type Role, changesOf, isWhole, meant, nameOf, namedBy, rebased, user, written } from "../people/person";
import { AskingForm, type Outgoing, checked } from "../ui/asking";
import type { Meanwhile } from "../ui/meanwhile";
import { Head, Loaded, Problem, missing } from "../ui/parts";

type Held = Project | Tenant | Platform;

/** Where people stand in a kind, and what they are given there. */
interface PeopleOf {
  kinds: readonly PersonKind[];
  hasRoles: boolean;
  title: (name: string) => string;
  back: (object: Held) => string;
  read: (object: Held) => Person[];
  /** `spec` of the merge patch that changes one list into the other. */
  write: (people: readonly Person[], before: readonly Person[]) => object;
}

const PEOPLE_OF: Record<string, PeopleOf> = {
  projects: {
    kinds: PERSON_KINDS,
    hasRoles: true,
    title: (name) => t("people.title", { name }),
    back: ({ metadata }) => `/projects/${metadata.name}`,
    read: (object) => namedBy(object as Project),
    write: (people, before) => {
      const members = (all: readonly Person[]) => all.filter(({ member }) => member).map(({ name }) => name);
      const isTouched = members(people).join("\n") !== members(before).join("\n");
      return { access: people.filter(({ member }) => !member).map((one) => written(one, true)), ...(isTouched && { members: members(people) }) };
    },
  },
  tenants: {
    kinds: PERSON_KINDS,
    hasRoles: false,
    title: (name) => t("people.tenant", { name }),
    back: ({ metadata }) => `/tenants/${metadata.name}`,
    read: ({ spec }) => ((spec as Tenant["spec"])?.administrators ?? []).map(({ kind, name, namespace = "" }) =>
      ({ kind, name, namespace, cluster: "", role: "admin", member: false })),
    write: (people) => ({ administrators: people.map((one) => written(one, false)) }),
  },
  platforms: {
    kinds: ["User"],
    hasRoles: false,
    title: (name) => t("people.platform", { name }),
    back: ({ spec }) => `/tenants/${(spec as Platform["spec"])?.tenantID ?? ""}`,
    read: ({ spec }) => ((spec as Platform["spec"])?.administrators ?? []).map((name) => user(name, "admin")),
    write: (people) => ({ administrators: people.map(({ name }) => name) }),
  },
};

/** Who may do what: people are added, changed and taken away in one write, which the server judges before it is sent. */
export function People() {
  const params = useParams<{ plural: string; name: string }>();
  // Keyed: from one place to another Back and Forward keep the page, and a form is of one object.
  return (
    <Show keyed when={`${params.plural}/${params.name}`}>
      <Show when={PEOPLE_OF[params.plural]} fallback={<Problem error={missing(params.plural)} />}>
        {(of) => <PeopleIn of={of()} path={pathOf(params.plural, params.name)} />}
      </Show>
    </Show>
  );
}

function PeopleIn({ of, path }: { of: PeopleOf; path: string }) {
  const [object, { refetch }] = createResource(() => request<Held>(path));
  return (
    <Loaded of={object} again={refetch}>
      {(found) => <PeopleForm object={found()} of={of} path={path} />}
    </Loaded>
  );
}

function PeopleForm(props: { object: Held; of: PeopleOf; path: string }) {
  const [base, setBase] = createSignal(props.object);
  const before = createMemo(() => props.of.read(base()));
  const [people, setPeople] = createSignal<readonly Person[]>(before());
  const named = createMemo(() => meant(people(), before()));
  const isUnfinished = () => !named().every(isWhole);
  const changes = createMemo(() => changesOf(before(), named().filter(isWhole)));
  const say = ({ is, who, role }: PeopleChange) => t(`people.${is}`, { who, role: props.of.hasRoles ? role : "admin" });
  const meanwhile: Meanwhile = {
    told: (fresh) => changesOf(before(), props.of.read(fresh as Held)).map(say),
    take: (fresh) => batch(() => {
      setPeople(rebased(before(), people(), props.of.read(fresh as Held)));
      setBase(() => fresh as Held);
    }),
  };
  const navigate = useNavigate();
  const back = () => props.of.back(props.object);
  const sent = createMemo((): Outgoing | undefined => {
    if (changes().length === 0 || isUnfinished()) return undefined;
    const { resourceVersion } = base().metadata;
    return { method: "PATCH", path: props.path, body: { metadata: { resourceVersion }, spec: props.of.write(named(), before()) }, base: base() };
  });
  const verdict = checked(sent);
  const put = (at: number, change: Partial<Person>) => setPeople(people().map((one, index) => (index === at ? { ...one, ...change } : one)));
  const add = () => setPeople([...people(), user("", props.of.hasRoles ? "view" : "admin")]);
  return (
    <>
      <Head title={props.of.title(props.object.metadata.name)} />
      <AskingForm sent={sent()} verdict={verdict()} label={t("form.save")} incomplete={t(isUnfinished() ? "people.incomplete" : "people.unchanged")}
        fits={t("people.fits")} done={() => navigate(back())} cancel={back()} meanwhile={meanwhile}>
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
      </AskingForm>
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

/** What a role lets somebody do, and what stays when it is taken away. */
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
