/**
 * Writes of objects that were read before. The controller writes statuses all the time: that alone is no reason to refuse what somebody has
 * typed, so a write that lost the race is sent again as long as nobody has touched what it changes.
 */

import type { Resource } from "../live/feed";
import { type Method, request } from "./client";
import { ApiError } from "./status";

export type Stored = Resource & { spec?: object | undefined };

/** What would be sent. */
export interface Outgoing {
  method: Method;
  path: string;
  body: unknown;
  /** What the body was made from; its fields of `spec` are what the write touches. */
  base?: Stored;
}

/** Somebody else has written meanwhile what this write would write over. */
export class ChangedMeanwhile extends Error {
  readonly fresh: Stored;

  constructor(message: string, fresh: Stored) {
    super(message);
    this.fresh = fresh;
  }
}

const TRIES = 3;

interface How {
  isDry?: boolean;
  signal?: AbortSignal;
  warned?: (texts: readonly string[]) => void;
}

/** Sends it; throws {@link ChangedMeanwhile} where somebody has to look first. */
export async function write(out: Outgoing, { isDry = false, signal, warned }: How = {}, ask: typeof request = request): Promise<unknown> {
  const aborting = signal ? { signal } : {};
  let { body } = out;
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask<unknown>(isDry ? `${out.path}?dryRun=All` : out.path, { method: out.method, body, ...aborting, ...(warned && { warned }) });
    } catch (error) {
      if (!out.base || !isConflict(error)) throw error;
      const fresh = await ask<Stored>(out.path, aborting);
      if (fresh.metadata.uid !== out.base.metadata.uid) throw error;
      if (touched(out.body).some((field) => !isSame(valueOf(out.base, field), valueOf(fresh, field)))) throw new ChangedMeanwhile(error.message, fresh);
      if (tries === TRIES) throw error;
      body = at(out.body, fresh.metadata.resourceVersion);
    }
  }
}

/** Deletes that very object, and none that has its name since. */
export function remove(path: string, uid: string, ask: typeof request = request): Promise<unknown> {
  return ask<unknown>(path, { method: "DELETE", body: { preconditions: { uid } } });
}

function isConflict(error: unknown): error is ApiError {
  return error instanceof ApiError && error.code === 409 && error.reason === "Conflict";
}

function touched(body: unknown): string[] {
  return Object.keys((body as { spec?: object }).spec ?? {});
}

function valueOf(object: Stored | undefined, field: string): unknown {
  return (object?.spec as Record<string, unknown> | undefined)?.[field];
}

function at(body: unknown, resourceVersion: string): object {
  const { metadata = {}, ...rest } = body as { metadata?: object };
  return { ...rest, metadata: { ...metadata, resourceVersion } };
}

/** Of what JSON holds. */
export function isSame(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null || Array.isArray(a) !== Array.isArray(b)) return false;
  const [of, other] = [a as Record<string, unknown>, b as Record<string, unknown>];
  const keys = Object.keys(of);
  return keys.length === Object.keys(other).length && keys.every((key) => key in other && isSame(of[key], other[key]));
}
