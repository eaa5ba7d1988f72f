/** Who is logged in. The credentials are in cookies that no script sees; what is known here is what the server tells. */

import { createSignal } from "solid-js";
import { forget } from "../live/store";
import { Offline, onUnauthorized, request } from "./client";
import { ApiError, isAnswer } from "./status";

export interface Session {
  username: string;
  groups: string[];
  issuer: string;
  /** When the token ends; it is refreshed before. RFC 3339. */
  expires: string;
  /** When one has to log in again. RFC 3339. */
  ends: string;
}

export interface ConsoleConfig {
  issuers: { name: string; displayName: string }[];
  version: string;
}

export type SessionState = { is: "unknown" } | { is: "nobody" } | { is: "somebody"; session: Session } | Away;

/** No answer, or none that says who is there. */
export interface Away {
  is: "offline";
  why: string;
  /** Whether the server was there, and said no. */
  refused?: boolean;
}

const [state, setState] = createSignal<SessionState>({ is: "unknown" });
export const sessionState = state;

const [isEnding, setEnding] = createSignal(false);
/** Whether one has to log in again soon. */
export const sessionEnds = isEnding;

/** A token that lives shorter than twice that is refreshed when half of what is left has passed. Where this clock is so far ahead of the server's
 * that each token seems to have ended, so often. */
const REFRESH_BEFORE_MS = 60_000;
/** Enough to finish a form. */
const WARN_BEFORE_MS = 10 * 60_000;
const RETRY_MS = 5_000;
const LONGEST_MS = 2 ** 31 - 1;
/** One tab refreshes for all: providers give each refresh token out once. */
const LOCK = "business-console-refresh";
/** A tab tells the others that somebody came, or that he went. */
const tabs = new BroadcastChannel("business-console-session");
let timer: ReturnType<typeof setTimeout> | undefined;
let warning: ReturnType<typeof setTimeout> | undefined;
let username: string | undefined;
let looking: Promise<void> | undefined;
/** When the newest token is to be refreshed, which is known from when it was first seen. */
let token = { expires: "", due: 0 };

/** Asks the server who is there. Whoever asks meanwhile gets the same answer. */
export function look(): Promise<void> {
  looking ??= find().finally(() => (looking = undefined));
  return looking;
}

onUnauthorized(async () => {
  const before = username;
  await look();
  // What one has asked nobody else asks again.
  return before !== undefined && username === before && state().is === "somebody";
});

tabs.onmessage = ({ data }: MessageEvent<"came" | "went">) => {
  if (data === "went") leave("nobody");
  // Who came may be another one; and a question that is under way may have its answer from before.
  if (data === "came" || looking) void Promise.resolve(looking).then(look);
};

async function find(): Promise<void> {
  try {
    const now = await known();
    if (now) take(now);
    if (!now || isDue(now)) take(await navigator.locks.request(LOCK, refreshed));
  } catch (error) {
    failed(error);
  }
}

/** The session, unless its token has ended. */
async function known(): Promise<Session | undefined> {
  try {
    return await request<Session>("/console/session");
  } catch (error) {
    if (isUnauthorized(error)) return undefined;
    throw error;
  }
}

/** Another tab may have done it meanwhile. */
async function refreshed(): Promise<Session> {
  const now = await known();
  if (now && !isDue(now)) return now;
  try {
    return await request<Session>("/console/refresh", { method: "POST" });
  } catch (error) {
    // The token that is there is good to its end, whoever is away; and the last one where no other follows.
    if (now) return isUnauthorized(error) ? { ...now, ends: now.expires } : now;
    throw error;
  }
}

/** At the session's end no other token follows. */
function isDue(session: Session): boolean {
  return Date.parse(session.expires) < Date.parse(session.ends) && dueOf(session) <= Date.now();
}

function dueOf({ expires }: Session): number {
  if (token.expires !== expires) {
    const end = Date.parse(expires);
    const left = end - Date.now();
    token = { expires, due: left > 0 ? end - Math.min(REFRESH_BEFORE_MS, left / 2) : Date.now() + REFRESH_BEFORE_MS };
  }
  return token.due;
}

function take(session: Session): void {
  // Nothing of what somebody else has open stays.
  if (username !== undefined && username !== session.username) leave("nobody");
  const comes = username === undefined;
  username = session.username;
  setState({ is: "somebody", session });
  const [expires, ends] = [Date.parse(session.expires), Date.parse(session.ends)];
  lookAt(expires < ends ? dueOf(session) : ends);
  warnBefore(ends);
  if (comes) tabs.postMessage("came");
}

function lookAt(when: number): void {
  clearTimeout(timer);
  timer = setTimeout(() => void look(), Math.min(Math.max(when - Date.now(), RETRY_MS), LONGEST_MS));
}

function warnBefore(ends: number): void {
  const left = ends - WARN_BEFORE_MS - Date.now();
  clearTimeout(warning);
  setEnding(left <= 0);
  if (left > 0) warning = setTimeout(() => warnBefore(ends), Math.min(left, LONGEST_MS));
}

function leave(is: "nobody" | "unknown"): void {
  clearTimeout(timer);
  clearTimeout(warning);
  username = undefined;
  forget();
  setEnding(false);
  setState({ is });
}

function failed(error: unknown): void {
  if (isUnauthorized(error)) return leave("nobody");
  if (error instanceof Offline) setState({ is: "offline", why: "" });
  else if (error instanceof ApiError) setState({ is: "offline", why: error.message, ...(isAnswer(error) && { refused: true }) });
  lookAt(0);
}

function isUnauthorized(error: unknown): boolean {
  return error instanceof ApiError && error.code === 401;
}

/** The way to the provider and back. */
export function loginPath(issuer: string, back: string): string {
  return `/console/login?issuer=${encodeURIComponent(issuer)}&return=${encodeURIComponent(back)}`;
}

/** Goes to the provider, and comes back here. */
export function login(issuer: string): void {
  location.assign(loginPath(issuer, location.pathname + location.search));
}

/** Throws when the server did not take it: one is still logged in then. */
export async function logout(): Promise<void> {
  // A refresh that is under way would bring cookies after they were taken away.
  const next = await navigator.locks.request(LOCK, async () => {
    const answer = await request<{ location: string }>("/console/logout", { method: "POST" });
    tabs.postMessage("went");
    leave("unknown");
    return answer.location;
  });
  location.assign(next);
}
