/** What pages were like when somebody left them, by entry of the browser's history. */

/** More than browsers keep entries. */
const ENTRIES_MAX = 100;

export class Entries {
  readonly #kept: Map<string, Readonly<Record<string, unknown>>>;

  /** As `JSON.stringify` wrote them. */
  constructor(text: string | null = null) {
    this.#kept = new Map(text === null ? [] : (JSON.parse(text) as [string, Record<string, unknown>][]));
  }

  of(entry: string, name: string): unknown {
    return this.#kept.get(entry)?.[name];
  }

  /** The entries that somebody was at longest ago go first. */
  keep(entry: string, name: string, value: unknown): void {
    const before = this.#kept.get(entry);
    this.#kept.delete(entry);
    this.#kept.set(entry, { ...before, [name]: value });
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > ENTRIES_MAX && oldest !== undefined) this.#kept.delete(oldest);
  }

  forget(entry: string): void {
    this.#kept.delete(entry);
  }

  toJSON(): unknown {
    return [...this.#kept];
  }
}
