import { type Accessor, For, type JSX, Show, createMemo } from "solid-js";
import { type MessageKey, t } from "../i18n/messages";
import { createSavedSignal } from "./restore";
import { createStableRows } from "./rows";

/** How many rows are shown at first, and how many more each time. */
const SHOWN = 20;
const MORE = 500;

/** How many rows of a list are shown; Back restores it. */
export function createPaging(list: string): [Accessor<number>, () => void] {
  const [most, setMost] = createSavedSignal<number>(`${list}: rows`, SHOWN);
  return [most, () => setMost(most() + MORE)];
}

/** A table that scrolls sideways in its own frame: part of a section, or a card itself. `children` renders a `<tr>`, which stays while its content does. */
export function Table<Row>(props: {
  label: string;
  columns: readonly MessageKey[];
  rows: readonly Row[];
  isCard?: boolean;
  children: (row: Row) => JSX.Element;
}) {
  const rows = createStableRows(() => props.rows);
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

/** Shows that there are more rows, with a button to show them. */
export function ShowMore(props: { shown: number; of: number; show: () => void }) {
  return (
    <Show when={props.of > props.shown}>
      <div class="row"><span class="quiet">{t("table.part", { shown: props.shown, count: props.of })}</span><button class="button" type="button" onClick={props.show}>{t("table.more")}</button></div>
    </Show>
  );
}

/** A section with a table, and a search field if it is long; or the text that it is empty. */
export function SearchableTable<Row>(props: {
  label: string;
  none: string;
  columns: readonly MessageKey[];
  rows: readonly Row[];
  /** The text of a row that the search matches. */
  searchText?: (row: Row) => string;
  children: (row: Row) => JSX.Element;
}) {
  const [most, more] = createPaging(props.label);
  const [wanted, want] = createSavedSignal<string>(`${props.label}: wanted`, "");
  const found = createMemo(() => {
    const { searchText, rows } = props;
    const text = wanted().trim().toLowerCase();
    return text === "" || !searchText ? rows : rows.filter((row) => searchText(row).toLowerCase().includes(text));
  });
  const label = () => t("table.find", { list: props.label });
  return (
    <section class="card" aria-label={props.label}>
      <div class="head">
        <h2>{props.label}</h2>
        <Show when={props.searchText && (props.rows.length > SHOWN || wanted() !== "")}>
          <input class="search" type="search" aria-label={label()} placeholder={label()} value={wanted()} onInput={(event) => want(event.currentTarget.value)} />
        </Show>
      </div>
      <Show when={found().length > 0} fallback={<p class="quiet">{props.rows.length > 0 ? t("table.nomatch") : props.none}</p>}>
        <Table label={props.label} rows={found().slice(0, most())} columns={props.columns}>{props.children}</Table>
        <ShowMore shown={most()} of={found().length} show={more} />
      </Show>
    </section>
  );
}
