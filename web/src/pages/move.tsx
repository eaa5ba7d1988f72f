import { useNavigate, useParams } from "@solidjs/router";
import { For, Show, createMemo, createResource, createSignal } from "solid-js";
import { request } from "../api/client";
import { pathOf, pathOfRoute, projects } from "../api/collections";
import { linkOf } from "../api/links";
import type { Namespace, Project } from "../api/types";
import { isWithin } from "../budget/forest";
import { t } from "../i18n/messages";
import { DryRunForm, type WriteRequest, createDryRun } from "../ui/dryrun";
import { FieldState, JUST_CREATED } from "../ui/notfound";
import { choiceNamed, inChoiceOrder } from "../ui/choice";
import { type ConflictHandler, fromTo } from "../ui/conflict";
import { PageHeader, ResourceBoundary } from "../ui/parts";

type Plural = "projects" | "namespaces";
type Moved = { is: "namespace"; object: Namespace; project: string } | { is: "project"; object: Project };

const place = (moved: Moved) =>
  moved.is === "namespace" ? pathOf("namespaces", moved.object.metadata.name, moved.project) : pathOf("projects", moved.object.metadata.name);

/** Moves a namespace or a project, with its charge, to another parent. */
export function Move() {
  const params = useParams<{ plural: Plural; place: string }>();
  // Keyed, since Back and Forward from one object to another keep the component, but a form belongs to one object.
  return <Show keyed when={`${params.plural}/${params.place}`}><MoveOf plural={params.plural} place={params.place} /></Show>;
}

function MoveOf({ plural, place }: { plural: Plural; place: string }) {
  const path = pathOfRoute(plural, place);
  const [moved, { mutate, refetch }] = createResource(async (): Promise<Moved> => (plural === "projects"
    ? { is: "project", object: await request<Project>(path) }
    : { is: "namespace", object: await request<Namespace>(path), project: place.split("/")[0] ?? "" }));
  return (
    <ResourceBoundary of={moved} retry={refetch}>
      {(found) => <MoveForm moved={found()} take={(fresh) => mutate(fresh)} />}
    </ResourceBoundary>
  );
}

function outgoing(moved: Moved, to: string, reason: string): WriteRequest {
  const { uid, resourceVersion } = moved.object.metadata;
  return moved.is === "namespace"
    ? { method: "POST", path: `${place(moved)}/transfer`, body: { project: to, uid, ...(reason && { reason }) } }
    : { method: "PATCH", path: place(moved), body: { metadata: { resourceVersion }, spec: { parentProjectName: to || null } }, base: moved.object };
}

function MoveForm(props: { moved: Moved; take: (fresh: Moved) => void }) {
  const all = projects();
  const [to, setTo] = createSignal<string>();
  const [reason, setReason] = createSignal("");
  const navigate = useNavigate();
  const { name } = props.moved.object.metadata;
  const isProject = props.moved.is === "project";
  const parentOf = (object: Project) => object.spec?.parentProjectName ?? "";
  const from = () => (props.moved.is === "project" ? parentOf(props.moved.object) : props.moved.project);
  const onConflict: ConflictHandler = {
    describe: (fresh) => [fromTo(t("form.parent"), from(), parentOf(fresh as Project))],
    rebase: (fresh) => props.take({ is: "project", object: fresh as Project }),
  };
  const names = createMemo(() => inChoiceOrder([...all.objects().values()]
    .filter(({ metadata, spec }) => metadata.name !== from() && !(isProject && isWithin(all.objects(), metadata.name, name)) && spec?.tenantID === props.moved.object.spec?.tenantID)));
  const text = (one: string) => choiceNamed(all.objects(), one);
  const back = linkOf(name, props.moved.is === "project" ? undefined : props.moved.project);
  /** The chosen parent, if it still exists. A memo, so that events of the feed do not start another dry run. */
  const target = createMemo(() => {
    const chosen = to();
    const isThere = chosen === "" ? from() !== "" : chosen !== undefined && names().includes(chosen);
    return isThere ? chosen : undefined;
  });
  const sent = createMemo(() => {
    const project = target();
    return project === undefined ? undefined : outgoing(props.moved, project, reason());
  });
  const verdict = createDryRun(sent);
  const done = () => navigate(linkOf(name, isProject ? undefined : to()), JUST_CREATED);
  return (
    <>
      <PageHeader title={t("move.title", { name })} under={from() ? t("project.parent", { name: from() }) : t("form.parent.none")} />
      <DryRunForm sent={sent()} verdict={verdict()} label={t("act.move")} incomplete={t("move.incomplete")} done={done} cancel={back} onConflict={onConflict}>
        <p class="quiet">{t(isProject ? "move.project" : "move.namespace")}</p>
        <label class="field">
          <span>{t("move.to")}</span>
          <select required onChange={(event) => setTo(event.currentTarget.value === "-" ? undefined : event.currentTarget.value)}>
            <option value="-">{t("move.choose")}</option>
            <Show when={isProject && from() !== ""}><option value="">{t("form.parent.none")}</option></Show>
            <For each={names()}>{(one) => <option value={one} selected={one === to()}>{text(one)}</option>}</For>
          </select>
          <FieldState state={all.state()} />
          <Show when={all.state().at === "live" && names().length === 0}><small>{t("move.nowhere")}</small></Show>
        </label>
        <Show when={!isProject}>
          <label class="field">
            <span>{t("act.reason")}</span>
            <input maxlength="1024" value={reason()} onInput={(event) => setReason(event.currentTarget.value)} />
            <small>{t("move.reason.help")}</small>
          </label>
        </Show>
      </DryRunForm>
    </>
  );
}
