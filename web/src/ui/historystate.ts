/** The saved state of pages, by history entry of the browser. */

/** More entries than browsers keep. */
const ENTRIES_MAX = 100;

export class HistoryState {
  readonly #entries: Map<string, Readonly<Record<string, unknown>>>;

  /** From the output of `JSON.stringify`. */
  constructor(text: string | null = null) {
    this.#entries = new Map(text === null ? [] : (JSON.parse(text) as [string, Record<string, unknown>][]));
  }

  get(entry: string, name: string): unknown {
    return this.#entries.get(entry)?.[name];
  }

  /** Sets a value. Drops the entry that was set longest ago if there are too many. */
  set(entry: string, name: string, value: unknown): void {
    const before = this.#entries.get(entry);
    this.#entries.delete(entry);
    this.#entries.set(entry, { ...before, [name]: value });
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > ENTRIES_MAX && oldest !== undefined) this.#entries.delete(oldest);
  }

  delete(entry: string): void {
    this.#entries.delete(entry);
  }

  toJSON(): unknown {
    return [...this.#entries];
  }
}
