/**
 * The objects that pages show. Subscribers of the same collection share one feed. Changes reach the pages with the next frame, at most ten
 * times a second.
 */

import { type Accessor, batch, createSignal, onCleanup, untrack } from "solid-js";
import { Feed, type FeedState, type Resource } from "./feed";

/** A collection that a feed keeps up to date. */
export interface Collection<T extends Resource> {
  /** By namespace and name. */
  objects: Accessor<ReadonlyMap<string, T>>;
  state: Accessor<FeedState>;
}

interface SharedCollection extends Collection<Resource> {
  subscribers: number;
  feed: Feed<Resource>;
  lingerTimer: ReturnType<typeof setTimeout> | undefined;
}

/** How long a collection without subscribers stays open, for a user who comes back. */
const LINGER_MS = 30_000;
/** The shortest time between two updates of the pages. */
const MIN_INTERVAL_MS = 100;
const collections = new Map<string, SharedCollection>();

/** The key of an object. */
export function keyOf({ metadata: { namespace, name } }: Resource): string {
  return namespace ? `${namespace}/${name}` : name;
}

/** Subscribes the current owner to a collection until its cleanup. A refused collection is opened again, since the rights may have changed. */
export function subscribe<T extends Resource>(path: string): Collection<T> {
  const known = collections.get(path);
  const shared = known && untrack(known.state).at !== "refused" ? known : openCollection(path);
  clearTimeout(shared.lingerTimer);
  shared.subscribers += 1;
  onCleanup(() => {
    shared.subscribers -= 1;
    if (shared.subscribers === 0) shared.lingerTimer = setTimeout(() => closeCollection(path, shared), LINGER_MS);
  });
  return shared as unknown as Collection<T>;
}

/** Closes all collections: another user logs in, or the same one with other rights. */
export function closeAll(): void {
  for (const [path, shared] of collections) closeCollection(path, shared);
}

/** Lists all collections again: the same user may see other objects. */
export function relistAll(): void {
  for (const { feed } of collections.values()) feed.relist();
}

function closeCollection(path: string, shared: SharedCollection): void {
  shared.feed.stop();
  if (collections.get(path) === shared) collections.delete(path);
}

function openCollection(path: string): SharedCollection {
  const [objects, show] = createSignal<ReadonlyMap<string, Resource>>(new Map());
  const [state, setState] = createSignal<FeedState>({ at: "loading" });
  let current = new Map<string, Resource>();
  let pending = false;
  let shown = 0;
  const changed = () => {
    if (pending) return;
    pending = true;
    nextFrame(shown + MIN_INTERVAL_MS - performance.now(), () => {
      pending = false;
      show(new Map(current));
      shown = performance.now();
    });
  };
  const feed = new Feed<Resource>(path, {
    replace(items) {
      current = new Map(items.map((item) => [keyOf(item), item]));
      batch(() => {
        show(new Map(current));
        setState({ at: "live" });
      });
    },
    put(item) {
      current.set(keyOf(item), item);
      changed();
    },
    remove(item) {
      current.delete(keyOf(item));
      changed();
    },
    state: setState,
  });
  const shared: SharedCollection = { objects, state, subscribers: 0, feed, lingerTimer: undefined };
  collections.set(path, shared);
  feed.start();
  return shared;
}

/** Uses a timer in the background, where a page gets no frames. */
function nextFrame(wait: number, then: () => void): void {
  if (document.hidden) setTimeout(then, MIN_INTERVAL_MS);
  else if (wait > 0) setTimeout(() => nextFrame(0, then), wait);
  else requestAnimationFrame(then);
}
