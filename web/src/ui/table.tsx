import { For, type JSX } from "solid-js";
import { type MessageKey, t } from "../i18n/messages";

/** A table in a frame of its own, in which it scrolls where the page is narrower. Its rows are `<tr>`. */
export function Table<Row>(props: {
  label: string;
  columns: readonly MessageKey[];
  rows: readonly Row[];
  isCard?: boolean;
  children: (row: Row) => JSX.Element;
}) {
  return (
    <div class="wide" classList={{ card: props.isCard }} tabindex="0" role="region" aria-label={props.label}>
      <table>
        <thead>
          <tr><For each={props.columns}>{(column) => <th scope="col">{t(column)}</th>}</For></tr>
        </thead>
        <tbody><For each={props.rows}>{props.children}</For></tbody>
      </table>
    </div>
  );
}
