/**
 * Follows one collection of the API: lists it, then watches it over a WebSocket and passes the events to a sink. It reports a lost connection
 * and reconnects with backoff. If the resource version has expired, it lists again.
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

/** Which manager last wrote which fields of an object. */
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

/** The state of a feed. */
export type FeedState =
  | { at: "loading" }
  /** Nothing was read yet; the feed retries. */
  | { at: "unread"; why: string }
  | { at: "live" }
  /** The connection is lost: the objects are as of `since`. The feed retries. */
  | { at: "cut"; since: number; why: string }
  /** The server has refused the request. The feed stops until `retry` is called. */
  | { at: "refused"; error: ApiError; retry: () => void };

export interface FeedSink<T extends Resource> {
  replace(items: T[]): void;
  put(item: T): void;
  remove(item: T): void;
  state(state: FeedState): void;
}

/** Opens the socket of a watch; tests use their own. */
export type OpenSocket = (url: string) => WebSocket;

/** Objects in a page of a list. Large, since each page is a round trip, one after the other. */
const PAGE = 2000;
/** The server sends a bookmark once a minute; after this time without any event the connection is considered dead. */
const IDLE_TIMEOUT_MS = 90_000;
const OPEN_TIMEOUT_MS = 15_000;
/** Refusals that are retried: session expired, resource version expired, too many requests. */
const TRANSIENT_CODES = new Set([401, 410, 429]);
const BACKOFF_MS = [250, 500, 1000, 2000, 5000, 10_000] as const;

/** Follows a collection until stop() is called. */
export class Feed<T extends Resource> {
  #stopped = false;
  #attempts = 0;
  /** Counts the lists: what an earlier one still brings is ignored. */
  #lists = 0;
  /** Whether a list has succeeded. */
  #isRead = false;
  #socket: WebSocket | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #idleTimer: ReturnType<typeof setTimeout> | undefined;
  /** When the server last sent something. */
  #lastHeard = Date.now();
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
    clearTimeout(this.#idleTimer);
    this.#abort.abort();
    this.#socket?.close();
  }

  /** Lists again. The user may see other objects than before, of which a watch that is resumed tells nothing. */
  relist(): void {
    if (this.#stopped) return;
    clearTimeout(this.#timer);
    clearTimeout(this.#idleTimer);
    const socket = this.#socket;
    this.#socket = undefined;
    socket?.close();
    void this.#list();
  }

  async #list(): Promise<void> {
    const items: T[] = [];
    this.#lists += 1;
    const list = this.#lists;
    const isOver = () => this.#stopped || list !== this.#lists;
    try {
      let revision = "";
      let next = "";
      do {
        // pretty=0: the server indents JSON for browsers by default.
        const query = `limit=${PAGE}&pretty=0${next && `&continue=${encodeURIComponent(next)}`}`;
        const page = await this.ask<List<T>>(`${this.path}?${query}`, { signal: this.#abort.signal });
        if (isOver()) return;
        items.push(...page.items);
        revision = page.metadata.resourceVersion;
        next = page.metadata.continue ?? "";
      } while (next !== "");
      this.#lastHeard = Date.now();
      this.#isRead = true;
      this.sink.replace(items);
      this.#watch(revision);
    } catch (error) {
      if (isOver()) return;
      if (error instanceof ApiError && error.code < 500 && !TRANSIENT_CODES.has(error.code)) {
        this.sink.state({ at: "refused", error, retry: () => this.#restart() });
      } else {
        const why = messageOf(error);
        this.#retryLater(() => why, () => void this.#list());
      }
    }
  }

  #restart(): void {
    this.#attempts = 0;
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
      clearTimeout(this.#idleTimer);
      this.#socket = undefined;
      this.#retryLater(() => t(why), () => (expired ? void this.#list() : this.#resume(revision)));
    };
    /** Detects a dead connection that was never closed. */
    const setDeadline = (wait: number) => {
      clearTimeout(this.#idleTimer);
      this.#idleTimer = setTimeout(() => {
        this.#attempts += 1;
        cut("cut.silent");
        socket.close();
      }, wait);
    };
    const onTraffic = () => {
      this.#lastHeard = Date.now();
      setDeadline(IDLE_TIMEOUT_MS);
    };
    setDeadline(OPEN_TIMEOUT_MS);
    // A socket that was given up may bring more until it is closed.
    const isCurrent = () => this.#socket === socket;
    socket.onopen = () => {
      if (!isCurrent()) return;
      onTraffic();
      this.#attempts = 0;
      this.sink.state({ at: "live" });
    };
    socket.onmessage = ({ data }: MessageEvent<string>) => {
      if (!isCurrent()) return;
      onTraffic();
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

  /**
   * After a failed attempt lists instead: a WebSocket that does not open gives no reason, a list does. So it does after a long silence, as of
   * a machine that slept: the server tells only open watches that their user sees something else.
   */
  #resume(revision: string): void {
    if (this.#attempts > 1 || Date.now() - this.#lastHeard > IDLE_TIMEOUT_MS) void this.#list();
    else this.#watch(revision);
  }

  /** `why` is called when the text is shown, in the language that is set then. */
  #retryLater(why: () => string, then: () => void): void {
    const backoff = BACKOFF_MS[Math.min(this.#attempts, BACKOFF_MS.length - 1)] ?? 10_000;
    this.#attempts += 1;
    // The first retry is not reported: the server ends each watch after some time.
    if (this.#attempts > 1) this.sink.state({ ...(this.#isRead ? { at: "cut", since: this.#lastHeard } : { at: "unread" }), get why() { return why(); } });
    // Jitter: when a replica ends, all its clients reconnect.
    this.#timer = setTimeout(then, backoff * (0.5 + Math.random()));
  }
}
