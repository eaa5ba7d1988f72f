/** Requests to the public API with the rights of the session. All requests to the server go through here. */

import { t } from "../i18n/messages";
import { ApiError, type Status } from "./status";
import { warningsOf } from "./warnings";

export const GROUP = "/apis/business.tkestack.io/v1";
/** The server refuses writes without this header; other sites cannot send it (CSRF). */
const UNSAFE_HEADER = { "X-Business-Console": "1" };
const TIMEOUT_MS = 30_000;
/** The longest part of an error body that is shown, if the body is no Status. */
const MAX_TEXT_LENGTH = 300;

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface RequestOptions {
  method?: Method;
  body?: unknown;
  /** `application/merge-patch+json` for a PATCH. */
  type?: string;
  signal?: AbortSignal;
  /** Called with the texts of the `Warning` headers. */
  onWarnings?: (texts: readonly string[]) => void;
}

/** The server did not answer. */
export class Offline extends Error {}

/** Something else has answered, such as a proxy with a page of its own. What the server did is not known. */
export class ForeignAnswer extends Offline {}

/** Whether the write may or may not have been done: no response, or a server error. */
export function isOutcomeUnknown(error: unknown): boolean {
  return error instanceof Offline || (error instanceof ApiError && error.code >= 500);
}

/** Checks the session again; true if the request may be sent again. */
let renew: () => Promise<boolean> = async () => false;

/** Sets what is called on a 401: a token expires while the machine sleeps, or the session ends in another tab. */
export function onUnauthorized(asks: () => Promise<boolean>): void {
  renew = asks;
}

/** Sends a request and parses the JSON of its response. Throws {@link ApiError} or {@link Offline}. */
export async function request<T>(path: string, call: RequestOptions = {}): Promise<T> {
  return parse(await fetchText(path, "application/json", call)) as T;
}

/** The same, without parsing the response. */
export function requestText(path: string, call: RequestOptions = {}): Promise<string> {
  return fetchText(path, "*/*", call);
}

async function fetchText(path: string, accept: string, call: RequestOptions): Promise<string> {
  let { response, text } = await send(path, accept, call);
  // After a 401 nothing was done, so one retry is safe. Paths of the session itself are not retried: renew() uses them.
  if (response.status === 401 && path.startsWith("/api") && (await renew())) ({ response, text } = await send(path, accept, call));
  if (response.ok) {
    if (isHtml(text)) throw new ForeignAnswer(t("state.foreign"));
    const warnings = warningsOf(response.headers.get("Warning"));
    if (warnings.length > 0) call.onWarnings?.(warnings);
    return text;
  }
  throw new ApiError((parse(text) ?? { kind: "Status", message: plainText(text) }) as Status, response.status);
}

async function send(path: string, accept: string, { method = "GET", body, type, signal }: RequestOptions): Promise<{ response: Response; text: string }> {
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

/** The text of an error body; empty for HTML, which proxies send. */
function plainText(text: string): string {
  return isHtml(text) ? "" : text.trim().slice(0, MAX_TEXT_LENGTH);
}

/** The API never sends HTML here. */
function isHtml(text: string): boolean {
  return /^\s*</.test(text);
}

function parse(text: string): unknown {
  try {
    return text === "" ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}
