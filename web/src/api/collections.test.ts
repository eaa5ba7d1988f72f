import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { isAllowed } from "./collections";
import { ApiError } from "./status";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => vi.useRealTimers());

const refusal = (code: number) => new ApiError({ kind: "Status", message: "no" }, code);

it("takes a refusal for an answer, and any other failure for none", async () => {
  const answers = [refusal(503), new Error("away"), undefined];
  let asked = 0;
  const ask = async () => {
    const answer = answers[asked++];
    if (answer) throw answer;
  };
  const may = isAllowed(ask, new AbortController().signal);
  await vi.advanceTimersByTimeAsync(10_000);
  expect([await may, asked]).toEqual([true, 3]);
  expect(await isAllowed(() => Promise.reject(refusal(403)), new AbortController().signal)).toBe(false);
});

it("asks no more for somebody who is gone", async () => {
  const gone = new AbortController();
  const ask = vi.fn(() => Promise.reject(refusal(503)));
  const may = isAllowed(ask, gone.signal);
  await vi.advanceTimersByTimeAsync(1_000);
  gone.abort();
  await vi.advanceTimersByTimeAsync(60_000);
  expect([await may, ask.mock.calls.length]).toEqual([false, 1]);
});
