/** Who is logged in. The credentials are in cookies that no script sees; what is known here is what the server tells. */

import { createSignal } from "solid-js";
import { forget } from "../live/store";
import { Offline, request } from "./client";
import { ApiError } from "./status";

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

export type SessionState = { is: "unknown" } | { is: "nobody" } | { is: "somebody"; session: Session } | { is: "offline"; why: string };

const [state, setState] = createSignal<SessionState>({ is: "unknown" });
export const sessionState = state;

const REFRESH_BEFORE_MS = 60_000;
const RETRY_MS = 5_000;
/** One tab refreshes for all: providers give each refresh token out once. */
const LOCK = "business-console-refresh";
let timer: ReturnType<typeof setTimeout> | undefined;

/** Asks the server who is there. */
export async function look(): Promise<void> {
  try {
    take(await request<Session>("/console/session"));
  } catch (error) {
    failed(error, look);
  }
}

async function refresh(): Promise<void> {
  try {
    take(await navigator.locks.request(LOCK, async () => {
      const now = await request<Session>("/console/session");
      return isDue(now) ? request<Session>("/console/refresh", { method: "POST" }) : now;
    }));
  } catch (error) {
    failed(error, refresh);
  }
}

function isDue({ expires }: Session): boolean {
  return Date.parse(expires) - Date.now() <= REFRESH_BEFORE_MS;
}

function take(session: Session): void {
  const before = state();
  if (before.is === "somebody" && before.session.username !== session.username) forget();
  setState({ is: "somebody", session });
  const wait = Math.max(Date.parse(session.expires) - Date.now() - REFRESH_BEFORE_MS, 1_000);
  clearTimeout(timer);
  timer = setTimeout(() => void refresh(), Math.min(wait, 2 ** 31 - 1));
}

function failed(error: unknown, again: () => Promise<void>): void {
  if (error instanceof ApiError && error.code === 401) {
    forget();
    setState({ is: "nobody" });
    return;
  }
  const why = error instanceof Error ? error.message : String(error);
  if (error instanceof Offline || error instanceof ApiError) setState({ is: "offline", why });
  clearTimeout(timer);
  timer = setTimeout(() => void again(), RETRY_MS);
}

/** Goes to the provider, and comes back here. */
export function login(issuer: string): void {
  const back = location.pathname + location.search;
  location.assign(`/console/login?issuer=${encodeURIComponent(issuer)}&return=${encodeURIComponent(back)}`);
}

export async function logout(): Promise<void> {
  const { location: next } = await request<{ location: string }>("/console/logout", { method: "POST" });
  forget();
  location.assign(next);
}
