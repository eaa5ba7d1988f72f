/** Restores the state of a page on Back and Forward: its scroll position, and how much of a list was shown. */

import { useBeforeLeave, useIsRouting } from "@solidjs/router";
import { type Signal, createEffect, createSignal, on, onCleanup } from "solid-js";
import { HistoryState } from "./historystate";

const STORAGE_KEY = "business-console-entries";
const SCROLL = "scroll";
/** How long the content may take to load before scrolling gives up. */
const CONTENT_TIMEOUT_MS = 5_000;
/** Input of the user that stops the scrolling. */
const USER_INPUT_EVENTS = ["wheel", "touchmove", "pointerdown", "keydown"] as const;

const entries = new HistoryState(sessionStorage.getItem(STORAGE_KEY));
/** The current history entry. */
let current = entryNow();
let isReturned = performance.getEntriesByType("navigation").some((entry) => (entry as PerformanceNavigationTiming).type !== "navigate");
/** The scroll position to restore, while the router loads the page. */
let wanted: number | undefined;
let scrollAbort: AbortController | undefined;
const stopScrolling = () => scrollAbort?.abort();

/** The key of the history entry from the Navigation API, or else its depth, which the router stores. */
function entryNow(): string {
  const { navigation } = window as unknown as { navigation?: { currentEntry: { key: string } | null } };
  return navigation?.currentEntry?.key ?? String((history.state as { _depth?: number } | null)?._depth);
}

/** The saved state, if the user came back to this entry. */
export function savedState<Value>(name: string): Value | undefined {
  // The router may run before our popstate handler. During a push the entry is still the old one.
  const now = entryNow();
  return isReturned || now !== current ? (entries.get(now, name) as Value | undefined) : undefined;
}

export function saveState(name: string, value: unknown): void {
  if (wanted === undefined) entries.set(current, name, value);
}

/** A signal whose value Back restores. */
export function createSavedSignal<Value extends string | number>(name: string, initial: Value): Signal<Value> {
  const [value, setValue] = createSignal<Value>(savedState<Value>(name) ?? initial);
  createEffect(on(value, (is) => saveState(name, is), { defer: true }));
  return [value, setValue];
}

/** Tracks the history until the cleanup of the router. */
export function trackHistory(): void {
  const isRouting = useIsRouting();
  let goesOn = false;
  const arrive = () => {
    current = entryNow();
    if (goesOn) entries.delete(current);
    goesOn = false;
    if (wanted !== undefined) scrollWhenPossible(wanted);
    wanted = undefined;
  };
  const back = () => {
    current = entryNow();
    isReturned = true;
    wanted = savedState<number>(SCROLL) ?? 0;
    // The router does not navigate between entries with the same URL.
    setTimeout(() => isRouting() || arrive());
  };
  const scrolled = () => (scrollAbort?.signal.aborted ?? true) && saveState(SCROLL, window.scrollY);
  const hide = () => sessionStorage.setItem(STORAGE_KEY, JSON.stringify(entries));
  // The browser would scroll before the content is loaded.
  history.scrollRestoration = "manual";
  addEventListener("popstate", back);
  addEventListener("scroll", scrolled, { passive: true });
  addEventListener("pagehide", hide);
  onCleanup(() => {
    removeEventListener("popstate", back);
    removeEventListener("scroll", scrolled);
    removeEventListener("pagehide", hide);
    stopScrolling();
  });
  useBeforeLeave(({ to, options }) => {
    if (typeof to === "number" || options?.replace) return;
    stopScrolling();
    [goesOn, isReturned, wanted] = [true, false, undefined];
  });
  createEffect(on(isRouting, (is) => is || arrive(), { defer: true }));
  if (isReturned) scrollWhenPossible(savedState<number>(SCROLL) ?? 0);
}

/** Scrolls to a position as soon as the page is tall enough. */
function scrollWhenPossible(top: number): void {
  stopScrolling();
  const over = new AbortController();
  scrollAbort = over;
  const scroll = () => {
    window.scrollTo(0, top);
    if (Math.abs(window.scrollY - top) <= 1) over.abort();
  };
  const growth = new ResizeObserver(scroll);
  const timer = setTimeout(() => over.abort(), CONTENT_TIMEOUT_MS);
  over.signal.addEventListener("abort", () => {
    clearTimeout(timer);
    growth.disconnect();
  });
  for (const act of USER_INPUT_EVENTS) addEventListener(act, () => over.abort(), { passive: true, signal: over.signal });
  growth.observe(document.body);
  scroll();
}
