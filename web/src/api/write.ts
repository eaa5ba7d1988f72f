/**
 * Writes of objects that were read before. The controller updates statuses all the time, which must not fail the write of a user: on a
 * conflict the write is sent again, unless somebody else has changed the same fields.
 */

import type { Resource } from "../live/feed";
import { type Method, request } from "./client";
import { ApiError } from "./status";

export type Stored = Resource & { spec?: object | undefined };

/** A write to send. */
export interface WriteRequest {
  method: Method;
  path: string;
  body: unknown;
  /** The object from which the body was made, to detect changes of the fields of `spec` that the write sets. */
  base?: Stored;
}

/** Somebody else has changed a field that this write would overwrite. */
export class ConflictError extends Error {
  readonly fresh: Stored;

  constructor(message: string, fresh: Stored) {
    super(message);
    this.fresh = fresh;
  }
}

const TRIES = 3;

interface WriteOptions {
  isDry?: boolean;
  signal?: AbortSignal;
  onWarnings?: (texts: readonly string[]) => void;
}

/** Sends a write. Throws {@link ConflictError} if the user must look at the changes of somebody else first. */
export async function write(out: WriteRequest, { isDry = false, signal, onWarnings }: WriteOptions = {}, ask: typeof request = request): Promise<unknown> {
  const aborting = signal ? { signal } : {};
  let { body } = out;
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask<unknown>(isDry ? `${out.path}?dryRun=All` : out.path, { method: out.method, body, ...aborting, ...(onWarnings && { onWarnings }) });
    } catch (error) {
      if (!out.base || !isConflict(error)) throw error;
      const fresh = await ask<Stored>(out.path, aborting);
      if (fresh.metadata.uid !== out.base.metadata.uid) throw error;
      if (changedFields(out.body).some((field) => !isEqual(valueOf(out.base, field), valueOf(fresh, field)))) throw new ConflictError(error.message, fresh);
      if (tries === TRIES) throw error;
      body = withResourceVersion(out.body, fresh.metadata.resourceVersion);
    }
  }
}

/** Deletes the object with this UID, and no later one of the same name. */
export function remove(path: string, uid: string, ask: typeof request = request): Promise<unknown> {
  return ask<unknown>(path, { method: "DELETE", body: { preconditions: { uid } } });
}

function isConflict(error: unknown): error is ApiError {
  return error instanceof ApiError && error.code === 409 && error.reason === "Conflict";
}

function changedFields(body: unknown): string[] {
  return Object.keys((body as { spec?: object }).spec ?? {});
}

function valueOf(object: Stored | undefined, field: string): unknown {
  return (object?.spec as Record<string, unknown> | undefined)?.[field];
}

function withResourceVersion(body: unknown, resourceVersion: string): object {
  const { metadata = {}, ...rest } = body as { metadata?: object };
  return { ...rest, metadata: { ...metadata, resourceVersion } };
}

/** Deep equality of JSON values. */
export function isEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null || Array.isArray(a) !== Array.isArray(b)) return false;
  const [of, other] = [a as Record<string, unknown>, b as Record<string, unknown>];
  const keys = Object.keys(of);
  return keys.length === Object.keys(other).length && keys.every((key) => key in other && isEqual(of[key], other[key]));
}
