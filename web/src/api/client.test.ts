import { afterEach, expect, it, vi } from "vitest";
import { ForeignAnswer, Offline, isOutcomeUnknown, request, requestText } from "./client";
import { type ApiError, isRejection } from "./status";

afterEach(() => vi.unstubAllGlobals());

async function failure(code: number, text: string): Promise<unknown> {
  vi.stubGlobal("fetch", async () => new Response(text, { status: code }));
  return request("/console/session").catch((error: unknown) => error);
}

const said = async (code: number, text: string) => ((await failure(code, text)) as ApiError).message;

it("says of an answer that is no Status what can be read of it", async () => {
  expect(await said(502, "\n<html><h1>Bad Gateway</h1></html>")).toBe("HTTP 502");
  expect(await said(503, "")).toBe("HTTP 503");
  expect(await said(504, "upstream timed out\n")).toBe("upstream timed out");
  expect(await said(500, "x".repeat(10_000))).toHaveLength(300);
  expect(await said(500, JSON.stringify({ kind: "Status", message: "" }))).toBe("HTTP 500");
  expect(await said(403, JSON.stringify({ kind: "Status", message: "no" }))).toBe("no");
});

it("knows an answer from none, and what may have been done all the same", async () => {
  const of = async (code: number) => {
    const error = await failure(code, "");
    return [isRejection(error), isOutcomeUnknown(error)];
  };
  expect(await of(403)).toEqual([true, false]);
  expect(await of(429)).toEqual([false, false]);
  expect(await of(503)).toEqual([false, true]);
  const away = new Offline("away");
  expect([isRejection(away), isOutcomeUnknown(away)]).toEqual([false, true]);
});

it("takes the page of a proxy for no answer, though it says that all is well", async () => {
  const error = await failure(200, "\n<!doctype html><title>Log in to the gateway</title>");
  expect([error instanceof ForeignAnswer, isRejection(error), isOutcomeUnknown(error)]).toEqual([true, false, true]);
  await expect(requestText("/apis/a/certificate")).rejects.toBeInstanceOf(ForeignAnswer);
});
