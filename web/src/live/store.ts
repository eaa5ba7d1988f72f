/**
 * The objects that the pages show, shared by all who look at the same collection. A change is handed to the pages with the next frame; a
 * stream of them ten times a second, which is as often as people read.
 */

import { type Accessor, batch, createSignal, onCleanup, untrack } from "solid-js";
import { Feed, type FeedState, type Resource } from "./feed";

/** A collection that is followed. */
export interface Collection<T extends Resource> {
  /** By namespace and name. */
  objects: Accessor<ReadonlyMap<string, T>>;
  state: Accessor<FeedState>;
}

interface Shared extends Collection<Resource> {
  users: number;
  feed: Feed<Resource>;
  rest: ReturnType<typeof setTimeout> | undefined;
}

/** For so long a collection is followed that nobody looks at: whoever comes back finds it there. */
const LINGER_MS = 30_000;
/** The shortest time between two showings. */
const CALM_MS = 100;
const followed = new Map<string, Shared>();

/** Where an object is. */
export function keyOf({ metadata: { namespace, name } }: Resource): string {
  return namespace ? `${namespace}/${name}` : name;
}

/** Follows a collection for as long as its user is there. What was refused may be allowed by now: whoever comes has it asked for anew. */
export function follow<T extends Resource>(path: string): Collection<T> {
  const known = followed.get(path);
  const shared = known && untrack(known.state).at !== "refused" ? known : begin(path);
  clearTimeout(shared.rest);
  shared.users += 1;
  onCleanup(() => {
    shared.users -= 1;
    if (shared.users === 0) shared.rest = setTimeout(() => end(path, shared), LINGER_MS);
  });
  return shared as unknown as Collection<T>;
}

/** Forgets everything: somebody else comes, or the same with other rights. */
export function forget(): void {
  for (const [path, shared] of followed) end(path, shared);
}

function end(path: string, shared: Shared): void {
  shared.feed.stop();
  if (followed.get(path) === shared) followed.delete(path);
}

function begin(path: string): Shared {
  const [objects, show] = createSignal<ReadonlyMap<string, Resource>>(new Map());
  const [state, setState] = createSignal<FeedState>({ at: "loading" });
  let current = new Map<string, Resource>();
  let pending = false;
  let shown = 0;
  const changed = () => {
    if (pending) return;
    pending = true;
    nextFrame(shown + CALM_MS - performance.now(), () => {
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
  const shared: Shared = { objects, state, users: 0, feed, rest: undefined };
  followed.set(path, shared);
  feed.start();
  return shared;
}

/** A page in the background has no frames. */
function nextFrame(wait: number, then: () => void): void {
  if (document.hidden) setTimeout(then, CALM_MS);
  else if (wait > 0) setTimeout(() => nextFrame(0, then), wait);
  else requestAnimationFrame(then);
}
