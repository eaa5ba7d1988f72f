/** The session of the user. Its credentials are in HttpOnly cookies; scripts only see what the server says about it. */

import { createSignal } from "solid-js";
import { closeAll, relistAll } from "../live/store";
import { ForeignAnswer, Offline, onUnauthorized, request } from "./client";
import { ApiError, isRejection } from "./status";

export interface Session {
  username: string;
  groups: string[];
  issuer: string;
  /** When the token expires; it is refreshed before. RFC 3339. */
  expires: string;
  /** When the session ends and the user must log in again. RFC 3339. */
  ends: string;
}

export interface ConsoleConfig {
  issuers: { name: string; displayName: string }[];
  version: string;
}

export type SessionState = { is: "unknown" } | { is: "loggedOut" } | { is: "loggedIn"; session: Session } | OfflineState;

/** No response, or one that does not say who is logged in. */
export interface OfflineState {
  is: "offline";
  why: string;
  /** Whether the server responded with a refusal. */
  refused?: boolean;
}

const [state, setState] = createSignal<SessionState>({ is: "unknown" });
export const sessionState = state;

const [isEnding, setEnding] = createSignal(false);
/** Whether the session ends soon. */
export const sessionEndsSoon = isEnding;

/** How long before its end a token is refreshed; a token with less than twice that left is refreshed after half of the rest. If this clock is
 * so far ahead that each token seems expired, this is the interval between refreshes. */
const REFRESH_BEFORE_MS = 60_000;
/** How long before the end of the session the user is warned: enough to finish a form. */
const WARN_BEFORE_MS = 10 * 60_000;
const RETRY_MS = 5_000;
const MAX_TIMEOUT_MS = 2 ** 31 - 1;
/** One tab at a time refreshes: a refresh token can be used only once. */
const LOCK = "business-console-refresh";
/** A tab tells the others that the user logged in or out. */
const tabs = new BroadcastChannel("business-console-session");
let timer: ReturnType<typeof setTimeout> | undefined;
let warningTimer: ReturnType<typeof setTimeout> | undefined;
let username: string | undefined;
let identity = "";
let pendingCheck: Promise<void> | undefined;
/** When to refresh the current token; computed when the token is first seen. */
let refreshPlan = { expires: "", due: 0 };

/** Who the API takes the user for. A refreshed token may have other groups. */
export function identityOf({ username, issuer, groups }: Session): string {
  return JSON.stringify([username, issuer, [...groups].sort()]);
}

/** Asks the server who is logged in. Concurrent callers share one check. */
export function checkSession(): Promise<void> {
  pendingCheck ??= updateSession().finally(() => (pendingCheck = undefined));
  return pendingCheck;
}

onUnauthorized(async () => {
  const before = username;
  await checkSession();
  // A request of one user must not be sent again as another user.
  return before !== undefined && username === before && state().is === "loggedIn";
});

tabs.onmessage = ({ data }: MessageEvent<"came" | "went">) => {
  if (data === "went") clearSession("loggedOut");
  // Another user may have logged in, and a pending check may have the answer from before.
  if (data === "came" || pendingCheck) void Promise.resolve(pendingCheck).then(checkSession);
};

async function updateSession(): Promise<void> {
  try {
    const now = await fetchSession();
    if (now) acceptSession(now);
    if (!now || isRefreshDue(now)) acceptSession(await navigator.locks.request(LOCK, refreshSession));
  } catch (error) {
    handleFailure(error);
  }
}

/** The session; undefined if its token has expired. */
async function fetchSession(): Promise<Session | undefined> {
  try {
    return await request<Session>("/console/session");
  } catch (error) {
    if (isUnauthorized(error)) return undefined;
    throw error;
  }
}

/** Refreshes the token, unless another tab has done so meanwhile. */
async function refreshSession(): Promise<Session> {
  const now = await fetchSession();
  if (now && !isRefreshDue(now)) return now;
  try {
    return await request<Session>("/console/refresh", { method: "POST" });
  } catch (error) {
    // A failed refresh leaves the current token valid until it expires. If the refresh is denied, it is the last token of the session.
    if (now) return isUnauthorized(error) ? { ...now, ends: now.expires } : now;
    throw error;
  }
}

/** A token that lasts to the end of the session is not refreshed. */
function isRefreshDue(session: Session): boolean {
  return Date.parse(session.expires) < Date.parse(session.ends) && refreshTime(session) <= Date.now();
}

function refreshTime({ expires }: Session): number {
  if (refreshPlan.expires !== expires) {
    const end = Date.parse(expires);
    const left = end - Date.now();
    refreshPlan = { expires, due: left > 0 ? end - Math.min(REFRESH_BEFORE_MS, left / 2) : Date.now() + REFRESH_BEFORE_MS };
  }
  return refreshPlan.due;
}

function acceptSession(session: Session): void {
  // Drop everything that another user has loaded.
  if (username !== undefined && username !== session.username) clearSession("loggedOut");
  const comes = username === undefined;
  const before = identity;
  username = session.username;
  identity = identityOf(session);
  setState({ is: "loggedIn", session });
  if (!comes && identity !== before) relistAll();
  const [expires, ends] = [Date.parse(session.expires), Date.parse(session.ends)];
  scheduleCheck(expires < ends ? refreshTime(session) : ends);
  scheduleWarning(ends);
  if (comes) tabs.postMessage("came");
}

function scheduleCheck(when: number): void {
  clearTimeout(timer);
  timer = setTimeout(() => void checkSession(), Math.min(Math.max(when - Date.now(), RETRY_MS), MAX_TIMEOUT_MS));
}

function scheduleWarning(ends: number): void {
  const left = ends - WARN_BEFORE_MS - Date.now();
  clearTimeout(warningTimer);
  setEnding(left <= 0);
  if (left > 0) warningTimer = setTimeout(() => scheduleWarning(ends), Math.min(left, MAX_TIMEOUT_MS));
}

function clearSession(is: "loggedOut" | "unknown"): void {
  clearTimeout(timer);
  clearTimeout(warningTimer);
  username = undefined;
  closeAll();
  setEnding(false);
  setState({ is });
}

function handleFailure(error: unknown): void {
  if (isUnauthorized(error)) return clearSession("loggedOut");
  if (error instanceof Offline) setState({ is: "offline", why: error instanceof ForeignAnswer ? error.message : "" });
  else if (error instanceof ApiError) setState({ is: "offline", why: error.message, ...(isRejection(error) && { refused: true }) });
  scheduleCheck(0);
}

function isUnauthorized(error: unknown): boolean {
  return error instanceof ApiError && error.code === 401;
}

/** The URL that logs in at the provider and returns to `back`. */
export function loginPath(issuer: string, back: string): string {
  return `/console/login?issuer=${encodeURIComponent(issuer)}&return=${encodeURIComponent(back)}`;
}

/** Logs in at the provider, then returns to this page. */
export function login(issuer: string): void {
  location.assign(loginPath(issuer, location.pathname + location.search));
}

/** Throws if the server did not log out; the user is still logged in then. */
export async function logout(): Promise<void> {
  // Under the lock: a concurrent refresh would set the cookies again.
  const next = await navigator.locks.request(LOCK, async () => {
    const answer = await request<{ location: string }>("/console/logout", { method: "POST" });
    tabs.postMessage("went");
    clearSession("unknown");
    return answer.location;
  });
  location.assign(next);
}
