/** Rows that keep their identity: each event of a feed rebuilds all rows of a list, but most have the same content as before. */

import { type Accessor, createMemo } from "solid-js";

/** The content of a row, which identifies it. */
function contentOf(row: unknown): string {
  return JSON.stringify(row, (_, value: unknown) => (typeof value === "bigint" ? `${value}n` : value)) ?? "";
}

/** The fresh rows in their order; a row with the same content as before is replaced by the former object. */
export function stableRows<Row>(fresh: readonly Row[], before: ReadonlyMap<string, Row>): Map<string, Row> {
  const times = new Map<string, number>();
  return new Map(fresh.map((row) => {
    const content = contentOf(row);
    const count = times.get(content) ?? 0;
    times.set(content, count + 1);
    // Two rows may have the same content.
    const key = `${count} ${content}`;
    return [key, before.get(key) ?? row];
  }));
}

/** The same for a list that changes. Since the row stays, what is open or focused in it stays, too. */
export function createStableRows<Row>(rows: Accessor<readonly Row[]>): Accessor<readonly Row[]> {
  const all = createMemo<ReadonlyMap<string, Row>>((before) => stableRows(rows(), before), new Map());
  return createMemo(() => [...all().values()]);
}
