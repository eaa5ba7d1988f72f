/** Errors of the API. */

import { type Amount, amountOf } from "../amounts/quantity";

export interface Cause {
  reason?: string;
  field?: string;
  message?: string;
}

/** `metav1.Status`. */
export interface Status {
  kind: "Status";
  code?: number;
  reason?: string;
  message?: string;
  details?: { name?: string; kind?: string; causes?: Cause[]; retryAfterSeconds?: number };
}

/** A response that is not a success. */
export class ApiError extends Error {
  readonly code: number;
  readonly reason: string;
  readonly causes: readonly Cause[];

  constructor(status: Status, code: number) {
    super(status.message || `HTTP ${code}`);
    this.code = code;
    this.reason = status.reason ?? "";
    this.causes = status.details?.causes ?? [];
  }
}

/** The message of an error. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Whether the server has evaluated the request and refused it, so that a retry cannot help (unlike 429 and 5xx). */
export function isRejection(error: unknown): boolean {
  return error instanceof ApiError && error.code < 500 && error.code !== 429;
}

/** A level whose limit does not allow the request, or whose new limit would be below what is allocated. */
export interface LevelCause {
  reason: string;
  field: string;
  /** `project`, `tenant` or `cluster`. */
  level: string;
  name: string;
  cluster: string;
  resource: string;
  requested: Amount;
  hard: Amount;
  allocated: Amount;
  fits: Amount;
}

/** The levels in the causes of a refusal, and all other causes. */
export function levelsOf(causes: readonly Cause[]): { levels: LevelCause[]; others: Cause[] } {
  const levels: LevelCause[] = [];
  const others: Cause[] = [];
  for (const cause of causes) {
    const level = levelOf(cause);
    if (level) levels.push(level);
    else others.push(cause);
  }
  return { levels, others };
}

function levelOf({ reason = "", field = "", message = "" }: Cause): LevelCause | undefined {
  if (reason !== "QuotaExceeded" && reason !== "BelowAllocated") return undefined;
  const pairs = new Map(message.split(" ").map((pair) => {
    const at = pair.indexOf("=");
    return [pair.slice(0, at), pair.slice(at + 1)] as const;
  }));
  const word = ["project", "tenant"].find((kind) => pairs.has(kind));
  const amount = (key: string) => amountOf(pairs.get(key));
  const cluster = pairs.get("cluster") ?? "";
  return {
    reason, field, cluster,
    level: word ?? "cluster",
    name: word ? (pairs.get(word) ?? "") : cluster,
    resource: pairs.get("resource") ?? "",
    requested: amount("requested"), hard: amount("hard"), allocated: amount("allocated"), fits: amount("fits"),
  };
}
