/** Rows that outlive what brings them anew: each event of a feed makes all objects of a list, and most of them say what they said before. */

import { type Accessor, createMemo } from "solid-js";

/** What a row says, which is what it is known by. */
function contentOf(row: unknown): string {
  return JSON.stringify(row, (_, value: unknown) => (typeof value === "bigint" ? `${value}n` : value)) ?? "";
}

/** Fresh rows in their order; for one whose content was there before, its former object. */
export function kept<Row>(fresh: readonly Row[], before: ReadonlyMap<string, Row>): Map<string, Row> {
  const times = new Map<string, number>();
  return new Map(fresh.map((row) => {
    const content = contentOf(row);
    const count = times.get(content) ?? 0;
    times.set(content, count + 1);
    // Two rows may say the same.
    const key = `${count} ${content}`;
    return [key, before.get(key) ?? row];
  }));
}

/** The same for a list that changes: what is open or focused in a row stays, as the row does. */
export function createKept<Row>(rows: Accessor<readonly Row[]>): Accessor<readonly Row[]> {
  const all = createMemo<ReadonlyMap<string, Row>>((before) => kept(rows(), before), new Map());
  return createMemo(() => [...all().values()]);
}
