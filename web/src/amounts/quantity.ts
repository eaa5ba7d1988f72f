/**
 * Kubernetes quantities as whole numbers of 10^-9, as the server counts them. No floating-point numbers: amounts must be exact.
 */

/** An amount in units of 10^-9. */
export type Amount = bigint;

/** One. */
export const UNIT: Amount = 1_000_000_000n;
/** The largest amount: 2^63 - 1. */
const MAX: Amount = (2n ** 63n - 1n) * UNIT;

const DECIMAL: Readonly<Record<string, number>> = {
  n: -9, u: -6, m: -3, "": 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18,
};
const BINARY: Readonly<Record<string, bigint>> = {
  Ki: 2n ** 10n, Mi: 2n ** 20n, Gi: 2n ** 30n, Ti: 2n ** 40n, Pi: 2n ** 50n, Ei: 2n ** 60n,
};
const FORM = /^([+-]?)(\d*)(?:\.(\d*))?(?:([eE])([+-]?\d{1,9})|(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E))?$/;

/** Parses a quantity. Rounds up to a multiple of 10^-9, as the server does. `undefined` if the text is no quantity, or too large. */
export function parseAmount(text: string): Amount | undefined {
  const match = FORM.exec(text.trim());
  if (!match) return undefined;
  const [, sign, whole = "", fraction = "", exponential, exponent, suffix = ""] = match;
  if (whole === "" && fraction === "") return undefined;
  const digits = BigInt(whole + fraction);
  const binary = BINARY[suffix];
  let numerator = digits * UNIT * (binary ?? 1n);
  let power = binary ? 0 : exponential ? Number(exponent) : (DECIMAL[suffix] ?? 0);
  power -= fraction.length;
  if (digits === 0n) return 0n;
  // The result is known without the power, whose computation would block the page.
  if (power > 40 || -power > 60 + digits.toString().length) return power > 0 ? undefined : sign === "-" ? -1n : 1n;
  if (power >= 0) numerator *= 10n ** BigInt(power);
  const denominator = power < 0 ? 10n ** BigInt(-power) : 1n;
  const rounded = (numerator + denominator - 1n) / denominator;
  if (rounded > MAX) return undefined;
  return sign === "-" ? -rounded : rounded;
}

/** A quantity in a JSON object. */
export type QuantityText = string | number;

/** Parsed texts: a frame reads thousands of amounts, most of them the same few texts. */
const cache = new Map<QuantityText, Amount>();
const CACHE_MAX = 10_000;

/** Parses a quantity from the server; 0 if it cannot be parsed. */
export function amountOf(text: QuantityText | undefined): Amount {
  if (text === undefined) return 0n;
  const before = cache.get(text);
  if (before !== undefined) return before;
  const amount = parseAmount(String(text)) ?? 0n;
  if (cache.size >= CACHE_MAX) cache.clear();
  cache.set(text, amount);
  return amount;
}

/** A part of a whole in thousandths. If the whole is 0: 1000 if there is a part, else 0. */
export function permille(part: Amount, whole: Amount): number {
  if (whole <= 0n) return part > 0n ? 1000 : 0;
  return Number((part * 1000n) / whole);
}
