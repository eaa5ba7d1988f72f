import { afterEach, expect, it, vi } from "vitest";
import { request } from "./client";
import { warningsOf } from "./warnings";

afterEach(() => vi.unstubAllGlobals());

it("reads each warning of the one line that a browser makes of them", () => {
  const line = String.raw`299 - "unknown field \"spec.a\"", 299 - "a\\b, c", 299 business-api "100 is near"`;
  expect(warningsOf(line)).toEqual(['unknown field "spec.a"', "a\\b, c", "100 is near"]);
  expect(warningsOf('299 - "\u00e6\u0095\u00b0"')).toEqual(["数"]);
  expect(warningsOf(null)).toEqual([]);
});

it("hands on what the server warns of, and nothing of an answer without", async () => {
  let headers = new Headers();
  vi.stubGlobal("fetch", async () => new Response("{}", { headers }));
  const onWarnings = vi.fn();
  await request("/things", { onWarnings });
  expect(onWarnings).not.toHaveBeenCalled();
  headers = new Headers([["Warning", '299 - "it is near its end"'], ["Warning", '299 - "and locked"']]);
  await request("/things", { onWarnings });
  expect(onWarnings).toHaveBeenCalledExactlyOnceWith(["it is near its end", "and locked"]);
});
