/** Back and Forward bring a page as somebody has left it: where he had scrolled to, and how much of a list he saw. */

import { useBeforeLeave, useIsRouting } from "@solidjs/router";
import { type Signal, createEffect, createSignal, on, onCleanup } from "solid-js";
import { Entries } from "./entries";

const KEPT = "business-console-entries";
const SCROLL = "scroll";
/** So long content may take to come. */
const PATIENCE_MS = 5_000;
/** Whoever does one of these goes where he wants to. */
const TAKES_OVER = ["wheel", "touchmove", "pointerdown", "keydown"] as const;

const entries = new Entries(sessionStorage.getItem(KEPT));
/** The entry that is shown. */
let current = entryNow();
let isReturned = performance.getEntriesByType("navigation").some((entry) => (entry as PerformanceNavigationTiming).type !== "navigate");
/** Set while a page is on its way that somebody comes back to. */
let wanted: number | undefined;
let reaching: AbortController | undefined;
const stopReaching = () => reaching?.abort();

/** What the browser calls its entry; where it has no name for it, how deep it lies, as the router notes it. */
function entryNow(): string {
  const { navigation } = window as unknown as { navigation?: { currentEntry: { key: string } | null } };
  return navigation?.currentEntry?.key ?? String((history.state as { _depth?: number } | null)?._depth);
}

/** What was kept of the page that somebody comes back to. */
export function kept<Value>(name: string): Value | undefined {
  // The router may hear of it first. On the way to a new place the entry is still the old one.
  const now = entryNow();
  return isReturned || now !== current ? (entries.of(now, name) as Value | undefined) : undefined;
}

export function keep(name: string, value: unknown): void {
  if (wanted === undefined) entries.keep(current, name, value);
}

/** A signal whose value Back brings again. */
export function createLeft<Value extends string | number>(name: string, initial: Value): Signal<Value> {
  const [value, setValue] = createSignal<Value>(kept<Value>(name) ?? initial);
  createEffect(on(value, (is) => keep(name, is), { defer: true }));
  return [value, setValue];
}

/** For as long as the router is there. */
export function followHistory(): void {
  const isRouting = useIsRouting();
  let goesOn = false;
  const arrive = () => {
    current = entryNow();
    if (goesOn) entries.forget(current);
    goesOn = false;
    if (wanted !== undefined) reach(wanted);
    wanted = undefined;
  };
  const back = () => {
    current = entryNow();
    isReturned = true;
    wanted = kept<number>(SCROLL) ?? 0;
    // From one entry to another of the same place the router goes nowhere.
    setTimeout(() => isRouting() || arrive());
  };
  const scrolled = () => (reaching?.signal.aborted ?? true) && keep(SCROLL, window.scrollY);
  const hide = () => sessionStorage.setItem(KEPT, JSON.stringify(entries));
  // The browser does it before there is anything to scroll.
  history.scrollRestoration = "manual";
  addEventListener("popstate", back);
  addEventListener("scroll", scrolled, { passive: true });
  addEventListener("pagehide", hide);
  onCleanup(() => {
    removeEventListener("popstate", back);
    removeEventListener("scroll", scrolled);
    removeEventListener("pagehide", hide);
    stopReaching();
  });
  useBeforeLeave(({ to, options }) => {
    if (typeof to === "number" || options?.replace) return;
    stopReaching();
    [goesOn, isReturned, wanted] = [true, false, undefined];
  });
  createEffect(on(isRouting, (is) => is || arrive(), { defer: true }));
  if (isReturned) reach(kept<number>(SCROLL) ?? 0);
}

/** Scrolls there, as soon as there is enough to scroll. */
function reach(top: number): void {
  stopReaching();
  const over = new AbortController();
  reaching = over;
  const scroll = () => {
    window.scrollTo(0, top);
    if (Math.abs(window.scrollY - top) <= 1) over.abort();
  };
  const growth = new ResizeObserver(scroll);
  const timer = setTimeout(() => over.abort(), PATIENCE_MS);
  over.signal.addEventListener("abort", () => {
    clearTimeout(timer);
    growth.disconnect();
  });
  for (const act of TAKES_OVER) addEventListener(act, () => over.abort(), { passive: true, signal: over.signal });
  growth.observe(document.body);
  scroll();
}
