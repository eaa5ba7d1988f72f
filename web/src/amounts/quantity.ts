/**
 * Kubernetes' quantities, exact: whole numbers of 10^-9, as the server counts them. Nothing here is a floating number, since an amount
 * that is nearly right is wrong.
 */

/** An amount in units of 10^-9. */
export type Amount = bigint;

/** One. */
export const UNIT: Amount = 1_000_000_000n;
/** The largest: 2^63 - 1 whole ones. */
const MAX: Amount = (2n ** 63n - 1n) * UNIT;

const DECIMAL: Readonly<Record<string, number>> = {
  n: -9, u: -6, m: -3, "": 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18,
};
const BINARY: Readonly<Record<string, bigint>> = {
  Ki: 2n ** 10n, Mi: 2n ** 20n, Gi: 2n ** 30n, Ti: 2n ** 40n, Pi: 2n ** 50n, Ei: 2n ** 60n,
};
const FORM = /^([+-]?)(\d*)(?:\.(\d*))?(?:([eE])([+-]?\d{1,9})|(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E))?$/;

/** Reads a quantity; what is finer than 10^-9 is rounded up, as the server does. `undefined` for what is none, or too much. */
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
  // Nothing of so many digits is in range; whoever types it is not to wait for the power.
  if (power > 40 || -power > 60 + digits.toString().length) return power > 0 ? undefined : sign === "-" ? -1n : 1n;
  if (power >= 0) numerator *= 10n ** BigInt(power);
  const denominator = power < 0 ? 10n ** BigInt(-power) : 1n;
  const rounded = (numerator + denominator - 1n) / denominator;
  if (rounded > MAX) return undefined;
  return sign === "-" ? -rounded : rounded;
}

/** How a quantity stands in an object. */
export type QuantityText = string | number;

/** The same few texts come again and again, thousands of them a frame. */
const known = new Map<QuantityText, Amount>();
const KNOWN_MAX = 10_000;

/** Reads a quantity of the server's; what cannot be read counts as nothing. */
export function amountOf(text: QuantityText | undefined): Amount {
  if (text === undefined) return 0n;
  const before = known.get(text);
  if (before !== undefined) return before;
  const amount = parseAmount(String(text)) ?? 0n;
  if (known.size >= KNOWN_MAX) known.clear();
  known.set(text, amount);
  return amount;
}

/** A part of a whole in thousandths, whole and 0 where there is nothing to be a part of. */
export function permille(part: Amount, whole: Amount): number {
  if (whole <= 0n) return part > 0n ? 1000 : 0;
  return Number((part * 1000n) / whole);
}
