import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { formatExact, formatRounded } from "./format";
import { UNIT, parseAmount, permille } from "./quantity";

describe("quantities", () => {
  it.each([
    ["0", 0n], ["4", 4n * UNIT], ["500m", UNIT / 2n], ["1.5", (3n * UNIT) / 2n], [".5", UNIT / 2n], ["16Gi", 16n * 2n ** 30n * UNIT],
    ["1.5Ki", 1536n * UNIT], ["1e3", 1000n * UNIT], ["1E3", 1000n * UNIT], ["2E", 2n * 10n ** 18n * UNIT], ["1n", 1n],
    ["-1", -UNIT], ["0.0000000001", 1n], ["100k", 100_000n * UNIT],
  ])("reads %s", (text, amount) => expect(parseAmount(text)).toBe(amount));

  it.each(["", "x", "1 Gi", "1GiB", "--1", ".", "1e", "m"])("refuses %j", (text) => expect(parseAmount(text)).toBeUndefined());

  it("agrees with what Kubernetes answers to the same texts", () => {
    const recorded = new URL("../../../crates/meta/tests/recorder/quantities.txt", import.meta.url);
    const lines = readFileSync(recorded, "utf8").trimEnd().split("\n");
    const differs = lines.filter((line) => {
      const [text = "", answer = ""] = line.split(" ");
      // Kubernetes lets some amounts beyond 2^63 grow and caps others, and reads a number without a digit as nothing.
      if (!/^[-+.]*[0-9]/.test(text)) return false;
      const [amount, expected] = [parseAmount(text), answer === "-" ? undefined : parseAmount(answer)];
      return amount !== expected && !(amount === undefined && answer === "9223372036854775807");
    });
    expect(lines.length).toBeGreaterThan(100);
    expect(differs).toEqual([]);
  });

  it.each(["9223372036854775808", "8Ei", "10E", "1e400", "1e999999999"])("has no place for %s", (text) =>
    expect(parseAmount(text)).toBeUndefined());

  it("is exact where floating numbers are not", () => {
    expect(parseAmount("9007199254740993")).toBe(9_007_199_254_740_993n * UNIT);
  });

  it("knows parts in thousandths", () => {
    expect([permille(1n, 3n), permille(0n, 0n), permille(1n, 0n), permille(3n, 2n)]).toEqual([333, 0, 1000, 1500]);
  });
});

describe("for people", () => {
  const say = (text: string, resource: string) => formatRounded(parseAmount(text) ?? 0n, resource);
  it.each([
    ["1536Mi", "requests.memory", "1.5Gi"], ["1Gi", "memory", "1Gi"], ["500Gi", "requests.storage", "500Gi"], ["999", "memory", "999"], ["2Gi", "hugepages-2Mi", "2Gi"], ["2Gi", "requests.hugepages-2Mi", "2Gi"],
    ["250m", "requests.cpu", "250m"], ["1250m", "cpu", "1.25"], ["1999m", "cpu", "1.99"], ["3050m", "cpu", "3.05"], ["40", "cpu", "40"], ["12.34", "cpu", "12.3"],
    ["123.4", "cpu", "123"], ["12", "pods", "12"], ["1188", "pods", "1.18k"], ["1200", "pods", "1.2k"], ["12345", "pods", "12.3k"],
    ["0", "pods", "0"], ["1u", "cpu", "<1m"],
  ])("says %s of %s", (text, resource, said) => expect(say(text, resource)).toBe(said));

  it.each([
    ["1536Mi", "memory", "1536Mi"], ["1536Mi", "pods", "1610612736"], ["1610612737", "requests.storage", "1610612737"], ["0", "memory", "0"],
    ["1500m", "memory", "1500m"], ["-2Gi", "memory", "-2Gi"], ["250m", "cpu", "250m"], ["1.5", "cpu", "1500m"],
    ["7u", "cpu", "7u"], ["3n", "cpu", "3n"],
  ])("keeps %s of %s", (text, resource, kept) => {
    const amount = parseAmount(text) ?? 0n;
    expect(formatExact(amount, resource)).toBe(kept);
    expect(parseAmount(formatExact(amount, resource))).toBe(amount);
  });
});
