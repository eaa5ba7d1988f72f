/** Requests to the public API, with whatever rights the session has. There is no other way to the server. */

import { t } from "../i18n/messages";
import { ApiError, type Status } from "./status";
import { warningsOf } from "./warnings";

export const GROUP = "/apis/business.tkestack.io/v1";
/** The server takes nothing that changes something without it: no other site can send it. */
const UNSAFE_HEADER = { "X-Business-Console": "1" };
const TIMEOUT_MS = 30_000;
/** So much is shown of an answer that is no Status. */
const LONGEST_TEXT = 300;

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface Call {
  method?: Method;
  body?: unknown;
  /** `application/merge-patch+json` for a PATCH. */
  type?: string;
  signal?: AbortSignal;
  /** Called with what the server warns of beside its answer. */
  warned?: (texts: readonly string[]) => void;
}

/** The server did not answer. */
export class Offline extends Error {}

/** Whether nobody knows if what was asked was done: no answer came, or none that says it. */
export function isUnsure(error: unknown): boolean {
  return error instanceof Offline || (error instanceof ApiError && error.code >= 500);
}

/** Asks who is there, and says whether there is somebody. */
let renew: () => Promise<boolean> = async () => false;

/** What is done when the API knows nobody any more: a token ends while a machine sleeps, a session in another tab. */
export function onUnauthorized(asks: () => Promise<boolean>): void {
  renew = asks;
}

/** Asks, and reads JSON. Throws {@link ApiError} or {@link Offline}. */
export async function request<T>(path: string, call: Call = {}): Promise<T> {
  return parse(await answer(path, "application/json", call)) as T;
}

/** The same, as a text. */
export function requestText(path: string, call: Call = {}): Promise<string> {
  return answer(path, "*/*", call);
}

async function answer(path: string, accept: string, call: Call): Promise<string> {
  let { response, text } = await send(path, accept, call);
  // Nothing was done yet: what was asked is asked once more. The session's own paths are what it is renewed with.
  if (response.status === 401 && path.startsWith("/api") && (await renew())) ({ response, text } = await send(path, accept, call));
  if (response.ok) {
    const warnings = warningsOf(response.headers.get("Warning"));
    if (warnings.length > 0) call.warned?.(warnings);
    return text;
  }
  throw new ApiError((parse(text) ?? { kind: "Status", message: readable(text) }) as Status, response.status);
}

async function send(path: string, accept: string, { method = "GET", body, type, signal }: Call): Promise<{ response: Response; text: string }> {
  const headers: Record<string, string> = { Accept: accept };
  if (method !== "GET") Object.assign(headers, UNSAFE_HEADER);
  if (body !== undefined) headers["Content-Type"] = type ?? (method === "PATCH" ? "application/merge-patch+json" : "application/json");
  const deadline = AbortSignal.timeout(TIMEOUT_MS);
  const init: RequestInit = { method, headers, signal: signal ? AbortSignal.any([signal, deadline]) : deadline };
  if (body !== undefined) init.body = JSON.stringify(body);
  try {
    const response = await fetch(path, init);
    return { response, text: await response.text() };
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Offline(t("state.unanswered"), { cause: error });
  }
}

/** What a proxy says may be a page, of which nobody reads the source. */
function readable(text: string): string {
  return /^\s*</.test(text) ? "" : text.trim().slice(0, LONGEST_TEXT);
}

function parse(text: string): unknown {
  try {
    return text === "" ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}
