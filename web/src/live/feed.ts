/**
 * One collection of the API, followed: a list, then a watch over a WebSocket, whose events are handed on. A cut is told, and mended with
 * growing patience; history that is gone is read anew. Nothing is shown that the server did not say.
 */

import { request } from "../api/client";
import { ApiError, messageOf } from "../api/status";
import { type MessageKey, t } from "../i18n/messages";

export interface ObjectMeta {
  name: string;
  namespace?: string;
  uid: string;
  resourceVersion: string;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  managedFields?: ManagedFields[];
}

/** Who wrote which part of an object last. */
export interface ManagedFields {
  manager?: string;
  operation?: string;
  time?: string;
  subresource?: string;
  fieldsV1?: object;
}

export interface Resource {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
}

interface List<T> {
  metadata: { resourceVersion: string; continue?: string };
  items: T[];
}

interface WatchEvent<T> {
  type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  object: T;
}

/** What becomes of a feed. */
export type FeedState =
  | { at: "loading" }
  /** Nothing was read yet, so nothing is known of what there is; the feed tries again. */
  | { at: "unread"; why: string }
  | { at: "live" }
  /** What is shown was true at `since`; the feed tries again. */
  | { at: "cut"; since: number; why: string }
  /** The server says no: it stays so until somebody asks again. */
  | { at: "refused"; error: ApiError; again: () => void };

export interface FeedSink<T extends Resource> {
  replace(items: T[]): void;
  put(item: T): void;
  remove(item: T): void;
  state(state: FeedState): void;
}

/** The socket of a watch; a test brings its own. */
export type OpenSocket = (url: string) => WebSocket;

/** Few large pages: each is a round trip, and the next one begins only when this one is read. */
const PAGE = 2000;
/** The server says something once a minute: nothing for longer, and nobody is there any more. */
const SILENCE_MS = 90_000;
const OPEN_MS = 15_000;
/** Refusals that pass: nobody is known for now, what was read is too old, too many ask. */
const PASSING = new Set([401, 410, 429]);
const PATIENCE_MS = [250, 500, 1000, 2000, 5000, 10_000] as const;

/** Follows a collection until it is stopped. */
export class Feed<T extends Resource> {
  #stopped = false;
  #tries = 0;
  /** Whether it has been read once. */
  #isRead = false;
  #socket: WebSocket | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #silence: ReturnType<typeof setTimeout> | undefined;
  /** When the server was last heard. */
  #heard = Date.now();
  readonly #abort = new AbortController();

  constructor(
    readonly path: string,
    readonly sink: FeedSink<T>,
    readonly open: OpenSocket = (url) => new WebSocket(url),
    readonly ask: typeof request = request,
  ) {}

  start(): void {
    void this.#list();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#silence);
    this.#abort.abort();
    this.#socket?.close();
  }

  async #list(): Promise<void> {
    const items: T[] = [];
    try {
      let revision = "";
      let next = "";
      do {
        // A browser's answers are indented unless it says so.
        const query = `limit=${PAGE}&pretty=0${next && `&continue=${encodeURIComponent(next)}`}`;
        const page = await this.ask<List<T>>(`${this.path}?${query}`, { signal: this.#abort.signal });
        items.push(...page.items);
        revision = page.metadata.resourceVersion;
        next = page.metadata.continue ?? "";
      } while (next !== "");
      if (this.#stopped) return;
      this.#heard = Date.now();
      this.#isRead = true;
      this.sink.replace(items);
      this.#watch(revision);
    } catch (error) {
      if (this.#stopped) return;
      if (error instanceof ApiError && error.code < 500 && !PASSING.has(error.code)) {
        this.sink.state({ at: "refused", error, again: () => this.#restart() });
      } else {
        const why = messageOf(error);
        this.#later(() => why, () => void this.#list());
      }
    }
  }

  #restart(): void {
    this.#tries = 0;
    this.sink.state({ at: "loading" });
    this.start();
  }

  #watch(from: string): void {
    let revision = from;
    const query = `watch=true&allowWatchBookmarks=true&resourceVersion=${encodeURIComponent(revision)}`;
    const socket = this.open(`${this.path}?${query}`);
    this.#socket = socket;
    let expired = false;
    const cut = (why: MessageKey) => {
      if (this.#stopped || this.#socket !== socket) return;
      clearTimeout(this.#silence);
      this.#socket = undefined;
      this.#later(() => t(why), () => (expired ? void this.#list() : this.#again(revision)));
    };
    /** A connection may be gone without a word. */
    const within = (wait: number) => {
      clearTimeout(this.#silence);
      this.#silence = setTimeout(() => {
        this.#tries += 1;
        cut("cut.silent");
        socket.close();
      }, wait);
    };
    const heard = () => {
      this.#heard = Date.now();
      within(SILENCE_MS);
    };
    within(OPEN_MS);
    socket.onopen = () => {
      heard();
      this.#tries = 0;
      this.sink.state({ at: "live" });
    };
    socket.onmessage = ({ data }: MessageEvent<string>) => {
      heard();
      const event = JSON.parse(data) as WatchEvent<T>;
      switch (event.type) {
        case "ADDED":
        case "MODIFIED":
          this.sink.put(event.object);
          break;
        case "DELETED":
          this.sink.remove(event.object);
          break;
        case "ERROR":
          expired = true;
          socket.close();
          return;
        case "BOOKMARK":
          break;
      }
      revision = event.object.metadata.resourceVersion;
    };
    socket.onclose = () => cut("cut.closed");
  }

  /** A watch that does not open tells no reason: a list does. */
  #again(revision: string): void {
    if (this.#tries > 1) void this.#list();
    else this.#watch(revision);
  }

  /** Why is said in the language of whoever reads it then. */
  #later(why: () => string, then: () => void): void {
    const patience = PATIENCE_MS[Math.min(this.#tries, PATIENCE_MS.length - 1)] ?? 10_000;
    this.#tries += 1;
    // A watch ends now and then by itself; that alone is nothing to tell.
    if (this.#tries > 1) this.sink.state({ ...(this.#isRead ? { at: "cut", since: this.#heard } : { at: "unread" }), get why() { return why(); } });
    // All pages are cut at once when a server ends: they do not all come back at once.
    this.#timer = setTimeout(then, patience * (0.5 + Math.random()));
  }
}
