import { type Accessor, For, type JSX, Show, createMemo } from "solid-js";
import { type MessageKey, t } from "../i18n/messages";
import { createLeft } from "./back";
import { createKept } from "./rows";

/** So many rows at first, and so many more for whoever asks for them. */
const SHOWN = 20;
const MORE = 500;

/** How much of a list is shown, which Back brings again. */
export function createPart(list: string): [Accessor<number>, () => void] {
  const [most, setMost] = createLeft<number>(`${list}: rows`, SHOWN);
  return [most, () => setMost(most() + MORE)];
}

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

/** A section with a table that may be long, and is searched then; or that there is nothing in it. */
export function Listing<Row>(props: {
  label: string;
  none: string;
  columns: readonly MessageKey[];
  rows: readonly Row[];
  /** What a row is found by. */
  called?: (row: Row) => string;
  children: (row: Row) => JSX.Element;
}) {
  const [most, more] = createPart(props.label);
  const [wanted, want] = createLeft<string>(`${props.label}: wanted`, "");
  const found = createMemo(() => {
    const { called, rows } = props;
    const text = wanted().trim().toLowerCase();
    return text === "" || !called ? rows : rows.filter((row) => called(row).toLowerCase().includes(text));
  });
  const label = () => t("table.find", { list: props.label });
  return (
    <section class="card" aria-label={props.label}>
      <div class="head">
        <h2>{props.label}</h2>
        <Show when={props.called && (props.rows.length > SHOWN || wanted() !== "")}>
          <input class="search" type="search" aria-label={label()} placeholder={label()} value={wanted()} onInput={(event) => want(event.currentTarget.value)} />
        </Show>
      </div>
      <Show when={found().length > 0} fallback={<p class="quiet">{props.rows.length > 0 ? t("table.nomatch") : props.none}</p>}>
        <Table label={props.label} rows={found().slice(0, most())} columns={props.columns}>{props.children}</Table>
        <More shown={most()} of={found().length} show={more} />
      </Show>
    </section>
  );
}
