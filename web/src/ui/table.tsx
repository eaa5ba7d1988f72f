import { For, type JSX, Show, createSignal } from "solid-js";
import { type MessageKey, t } from "../i18n/messages";
import { createKept } from "./rows";

/** So many rows at once: whoever wants more asks for them. */
export const SHOWN = 500;

/** A table in a frame of its own, in which it scrolls where the page is narrower: a part of a section of that name, or a card itself. Its rows are `<tr>`, which stay while what they say does. */
export function Table<Row>(props: {
  label: string;
  columns: readonly MessageKey[];
  rows: readonly Row[];
  isCard?: boolean;
  children: (row: Row) => JSX.Element;
}) {
  const rows = createKept(() => props.rows);
  return (
    <div class="wide" classList={{ card: props.isCard }} tabindex="0" role={props.isCard ? "region" : "group"} aria-label={props.label}>
      <table>
        <thead>
          <tr><For each={props.columns}>{(column) => <th scope="col">{t(column)}</th>}</For></tr>
        </thead>
        <tbody><For each={rows()}>{props.children}</For></tbody>
      </table>
    </div>
  );
}

/** Says that there is more than what is shown. */
export function More(props: { shown: number; of: number; show: () => void }) {
  return (
    <Show when={props.of > props.shown}>
      <div class="row"><span class="quiet">{t("table.part", { shown: props.shown, count: props.of })}</span><button class="button" type="button" onClick={props.show}>{t("table.more")}</button></div>
    </Show>
  );
}

/** A section with a table that may be long; or that there is nothing in it. */
export function Listing<Row>(props: {
  label: string;
  none: string;
  columns: readonly MessageKey[];
  rows: readonly Row[];
  children: (row: Row) => JSX.Element;
}) {
  const [most, setMost] = createSignal(SHOWN);
  return (
    <section class="card" aria-label={props.label}>
      <h2>{props.label}</h2>
      <Show when={props.rows.length > 0} fallback={<p class="quiet">{props.none}</p>}>
        <Table label={props.label} rows={props.rows.slice(0, most())} columns={props.columns}>{props.children}</Table>
        <More shown={most()} of={props.rows.length} show={() => setMost(most() + SHOWN)} />
      </Show>
    </section>
  );
}
