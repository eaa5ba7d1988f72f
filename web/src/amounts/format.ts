/** Amounts as text: rounded down to three digits, or exact. */

import { type Amount, UNIT } from "./quantity";

const BINARY_UNITS = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] as const;
const LARGE_UNITS = ["", "k", "M", "G", "T", "P", "E"] as const;

/** Whether a resource is counted in bytes. */
export function isBytes(resource: string): boolean {
  return /(^|\.)(memory|storage|ephemeral-storage)$/.test(resource) || /^(requests\.)?hugepages-/.test(resource);
}

/** Whether a resource is counted in cores. */
export function isCores(resource: string): boolean {
  return /(^|\.)cpu$/.test(resource);
}

/** Rounded down: `1.5Gi`, `250m`, `12`. */
export function formatRounded(amount: Amount, resource: string): string {
  if (amount < 0n) return `-${formatRounded(-amount, resource)}`;
  if (isBytes(resource)) return scaled(amount, 1024n, BINARY_UNITS);
  if (amount > 0n && amount < UNIT) return thousandths(amount);
  if (isCores(resource) && amount < 1000n * UNIT) return decimals(amount, UNIT);
  return scaled(amount, 1000n, LARGE_UNITS);
}

/** Exact, as a Kubernetes quantity: `1536Mi`, `250m`, `1610612737`. */
export function formatExact(amount: Amount, resource: string): string {
  if (amount < 0n) return `-${formatExact(-amount, resource)}`;
  if (amount > 0n && isBytes(resource) && amount % UNIT === 0n) return wholeBytes(amount / UNIT);
  for (const [suffix, size] of [["", UNIT], ["m", 1_000_000n], ["u", 1000n]] as const) {
    if (amount % size === 0n) return `${amount / size}${suffix}`;
  }
  return `${amount}n`;
}

/** In the largest binary unit that gives a whole number. */
function wholeBytes(bytes: bigint): string {
  let index = 0;
  while (index < BINARY_UNITS.length - 1 && bytes % 1024n === 0n) {
    bytes /= 1024n;
    index += 1;
  }
  return `${bytes}${BINARY_UNITS[index] ?? ""}`;
}

function thousandths(amount: Amount): string {
  const thousand = amount / 1_000_000n;
  return thousand > 0n ? `${thousand}m` : "<1m";
}

function scaled(amount: Amount, base: bigint, units: readonly string[]): string {
  let size = UNIT;
  let index = 0;
  while (index < units.length - 1 && amount >= size * base) {
    size *= base;
    index += 1;
  }
  return decimals(amount, size) + (units[index] ?? "");
}

/** Two decimals below 10, one below 100, else none. */
function decimals(amount: Amount, size: Amount): string {
  const whole = amount / size;
  const digits = whole < 10n ? 2 : whole < 100n ? 1 : 0;
  const part = ((amount % size) * 10n ** BigInt(digits)) / size;
  const behind = digits === 0 ? "" : part.toString().padStart(digits, "0").replace(/0+$/, "");
  return behind === "" ? `${whole}` : `${whole}.${behind}`;
}
