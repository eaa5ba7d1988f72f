import { A } from "@solidjs/router";
import { For, Show, createMemo } from "solid-js";
import type { TreeNode } from "../budget/forest";
import { releases } from "../budget/releases";
import { formatDateTime, t } from "../i18n/messages";
import { AmountText } from "./parts";
import { Table } from "./table";

/** Amounts that are still charged but being released: of what, since when, and what blocks it. */
export function Releasing(props: { node: TreeNode }) {
  const all = createMemo(() => releases(props.node));
  return (
    <Show when={all().length > 0}>
      <section class="card" aria-label={t("project.releasing")}>
        <h2>{t("project.releasing")}</h2>
        <p class="quiet">{t("project.releasing.text")}</p>
        <Table label={t("project.releasing")} rows={all()}
          columns={["column.name", "column.phase", "form.cluster", "column.amounts", "column.since", "column.holds"]}>
          {({ name, link, is, since, cluster, amounts, why }) => (
            <tr>
              <td><Show when={link} fallback={name}>{(to) => <A href={to()}>{name}</A>}</Show></td>
              <td><span class="tag noted">{t(`release.${is}`)}</span></td>
              <td class="number">{cluster}</td>
              <td><For each={amounts}>{({ resource, amount }) => <div class="pair">{resource}{" "}<AmountText amount={amount} resource={resource} /></div>}</For></td>
              <td class="number">{since ? formatDateTime(since) : "–"}</td>
              <td>{why || t("release.waits", { cluster })}</td>
            </tr>
          )}
        </Table>
      </section>
    </Show>
  );
}
