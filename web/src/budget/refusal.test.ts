import { expect, it } from "vitest";
import type { LevelCause } from "../api/status";
import { refusalBarLengths } from "./refusal";

const cause = (reason: string, [requested, hard, allocated, fits]: [bigint, bigint, bigint, bigint]): LevelCause =>
  ({ reason, field: "", level: "project", name: "shop", cluster: "c", resource: "pods", requested, hard, allocated, fits });

it.each([
  ["ninety of ten, where two are given", [90n, 10n, 2n, 8n], { whole: 92n, given: 2n, asked: 92n, limit: 10n }],
  ["more for one who has three of the eight given", [6n, 10n, 8n, 5n], { whole: 11n, given: 5n, asked: 11n, limit: 10n }],
  ["more for one who has two, where more is given than there is", [3n, 10n, 12n, 2n], { whole: 13n, given: 10n, asked: 13n, limit: 10n }],
  ["anything where nothing may be granted", [3n, 0n, 0n, 0n], { whole: 3n, given: 0n, asked: 3n, limit: 0n }],
] as [string, [bigint, bigint, bigint, bigint], object][])("shows %s", (_, amounts, lengths) =>
  expect(refusalBarLengths(cause("QuotaExceeded", amounts))).toEqual(lengths));

it("shows what is given beyond a limit that is to be lowered", () =>
  expect(refusalBarLengths(cause("BelowAllocated", [30n, 100n, 41n, 41n]))).toEqual({ whole: 41n, given: 41n, asked: 41n, limit: 30n }));
