/**
 * What a page asks for beside its object. Not createResource: until its first answer it suspends the whole page, with the field in which the
 * user types.
 */

import { type Accessor, createEffect, createSignal, on, onCleanup } from "solid-js";
import { request } from "../api/client";
import { retried } from "../api/collections";
import { ApiError, isRejection, messageOf } from "../api/status";
import { t } from "../i18n/messages";

/** The result for the current input, or for the last one that has a result. */
export function createLatest<Input, Output>(input: Accessor<Input>, load: (input: Input) => Promise<Output>): Accessor<Output | undefined> {
  const [latest, setLatest] = createSignal<Output>();
  createEffect(on(input, (wanted) => {
    let isWanted = true;
    onCleanup(() => (isWanted = false));
    void load(wanted).then((output) => isWanted && setLatest(() => output), () => undefined);
  }));
  return latest;
}

/** Names that a form offers. */
export interface Names {
  names: Accessor<readonly string[]>;
  /** Why there are none yet; empty once they were read. */
  why: Accessor<string>;
}

interface NameList {
  items: { metadata: { name: string } }[];
}

/** Whether asking again is of no use. A token that has ended is exchanged. */
const isFinal = (error: unknown) => isRejection(error) && !(error instanceof ApiError && error.code === 401);

/** The names of a collection, read once. Tries again until the server has answered. */
export function createNames(path: string): Names {
  const [names, setNames] = createSignal<readonly string[]>([]);
  const [why, setWhy] = createSignal(() => t("state.loading"));
  const asking = new AbortController();
  onCleanup(() => asking.abort());
  const again = (error: unknown) => setWhy(() => () => t("state.unread", { why: messageOf(error) }));
  void retried(() => request<NameList>(path, { signal: asking.signal }), asking.signal, isFinal, again).then(
    ({ items }) => {
      setNames(items.map(({ metadata }) => metadata.name));
      setWhy(() => () => "");
    },
    (error: unknown) => asking.signal.aborted || setWhy(() => () => messageOf(error)),
  );
  return { names, why: () => why()() };
}
