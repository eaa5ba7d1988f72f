import { A } from "@solidjs/router";
import { For, Show } from "solid-js";
import type { Project } from "../api/types";
import { t } from "../i18n/messages";
import { ROLES, accessTo } from "../people/person";
import { Table } from "./table";

/**
 * Who has a role in a project and its namespaces, granted by the project itself or its ancestors. Only the page of the project sets
 * `isChanged`: whether they may be changed.
 */
export function Access(props: { of: string; all: ReadonlyMap<string, Project>; isChanged?: boolean }) {
  const people = () => accessTo(props.of, props.all);
  const roles = () => ROLES.filter((role) => people().some((one) => one.role === role));
  return (
    <section class="card" aria-label={t("project.people")}>
      <div class="head">
        <h2>{t("project.people")}</h2>
        <Show when={props.isChanged}><PeopleLink plural="projects" name={props.of} /></Show>
      </div>
      <Show when={people().length > 0} fallback={<p class="quiet">{t("project.nopeople")}</p>}>
        <Table label={t("project.people")} rows={people()}
          columns={["column.name", "column.kind", "column.role", "column.from"]}>
          {({ from, kind, name, role }) => (
            <tr>
              <td>{name}</td><td>{t(`kind.${kind}`)}</td><td>{role}</td>
              <td>
                <Show when={from !== props.of || props.isChanged === undefined} fallback={t("people.here")}><A href={`/projects/${from}`}>{from}</A></Show>
              </td>
            </tr>
          )}
        </Table>
        <dl class="facts"><For each={roles()}>{(role) => <><dt class="mono">{role}</dt><dd>{t(`role.${role}`)}</dd></>}</For></dl>
      </Show>
    </section>
  );
}

/** A link to the page that changes the people of an object. */
export function PeopleLink(props: { plural: "projects" | "tenants" | "platforms"; name: string }) {
  return <A class="button" href={`/people/${props.plural}/${props.name}`}>{t("people.edit")}</A>;
}
