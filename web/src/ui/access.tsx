import { A } from "@solidjs/router";
import { For, Show } from "solid-js";
import type { Project } from "../api/types";
import { t } from "../i18n/messages";
import { accessTo } from "../people/person";

/** Who may do what in a project, and in the namespaces of it: those whom it names, and those whom projects above it name. */
export function Access(props: { of: string; all: ReadonlyMap<string, Project>; isChanged?: boolean }) {
  const people = () => accessTo(props.of, props.all);
  return (
    <section class="card" aria-label={t("project.people")}>
      <div class="head">
        <h2>{t("project.people")}</h2>
        <Show when={props.isChanged}><PeopleLink plural="projects" name={props.of} /></Show>
      </div>
      <Show when={people().length > 0} fallback={<p class="quiet">{t("project.nopeople")}</p>}>
        <div class="wide" tabindex="0" role="region" aria-label={t("project.people")}>
          <table>
            <thead>
              <tr>
                <th scope="col">{t("column.name")}</th><th scope="col">{t("column.kind")}</th><th scope="col">{t("column.role")}</th>
                <th scope="col">{t("column.from")}</th>
              </tr>
            </thead>
            <tbody>
              <For each={people()}>
                {({ from, kind, name, role }) => (
                  <tr>
                    <td>{name}</td><td>{t(`kind.${kind}`)}</td><td title={t(`role.${role}`)}>{role}</td>
                    <td>
                      <Show when={from !== props.of || !props.isChanged} fallback={t("people.here")}><A href={`/projects/${from}`}>{from}</A></Show>
                    </td>
                  </tr>
                )}
              </For>
            </tbody>
          </table>
        </div>
      </Show>
    </section>
  );
}

/** Where people of an object are changed. */
export function PeopleLink(props: { plural: "projects" | "tenants" | "platforms"; name: string }) {
  return <A class="button" href={`/people/${props.plural}/${props.name}`}>{t("people.edit")}</A>;
}
