import { A } from "@solidjs/router";
import { For, Show, createMemo } from "solid-js";
import { namespaces, pathOf, projects } from "../api/collections";
import type { Condition } from "../api/types";
import { t } from "../i18n/messages";
import { ReasonedAct } from "../ui/acts";
import { Head, Living } from "../ui/parts";

/** What does not agree, or waits for somebody: of all that one sees. */
export function Findings() {
  const all = projects();
  const inside = namespaces();
  const orphans = createMemo(() => [...all.objects().values()].flatMap(({ metadata, status }) =>
    (status?.orphans ?? []).map((orphan) => ({ project: metadata.name, orphan: orphan as unknown as Record<string, unknown> }))));
  const troubled = createMemo(() => [
    ...[...all.objects().values()].map((object) => ({ object, link: `/projects/${object.metadata.name}` })),
    ...[...inside.objects().values()].map((object) => ({ object, link: `/projects/${object.metadata.namespace}/namespaces/${object.metadata.name}` })),
  ].flatMap(({ object, link }) => {
    const wrong = ((object.status?.conditions ?? []) as Condition[]).find((one) => one.type === "Ready" && one.status === "False");
    return wrong ? [{ name: object.metadata.name, link, wrong }] : [];
  }));
  const locked = createMemo(() => [...all.objects().values()].filter(({ status }) => status?.locked));
  return (
    <>
      <Head title={t("findings.title")} />
      <Living states={[all.state(), inside.state()]}>
        <Show when={orphans().length + troubled().length + locked().length > 0} fallback={<p class="card empty">{t("findings.none")}</p>}>
          <Show when={orphans().length > 0}>
            <section class="card" aria-label={t("findings.orphans")}>
              <h2>{t("findings.orphans")}</h2>
              <ul class="stairs">
                <For each={orphans()}>
                  {({ project, orphan }) => (
                    <li class="row">
                      <A href={`/projects/${project}`}>{project}</A>
                      <code>{JSON.stringify(orphan)}</code>
                    </li>
                  )}
                </For>
              </ul>
            </section>
          </Show>
          <Show when={troubled().length > 0}>
            <section class="card" aria-label={t("findings.conditions")}>
              <h2>{t("findings.conditions")}</h2>
              <ul class="stairs">
                <For each={troubled()}>
                  {({ name, link, wrong }) => <li><A href={link}>{name}</A>{" "}<span class="tag urgent">{wrong.reason}</span>{" "}{wrong.message}</li>}
                </For>
              </ul>
            </section>
          </Show>
          <For each={locked()}>
            {({ metadata }) => (
              <section class="card" aria-label={metadata.name}>
                <div class="head">
                  <A href={`/projects/${metadata.name}`}>{metadata.name}</A>
                  <ReasonedAct label={t("act.unlock")} path={`${pathOf("projects", metadata.name)}/unlock`} />
                </div>
                <p>{t("project.locked")}</p>
              </section>
            )}
          </For>
        </Show>
      </Living>
    </>
  );
}
