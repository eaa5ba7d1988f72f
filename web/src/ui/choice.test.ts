import { expect, it } from "vitest";
import { choiceText, inChoiceOrder } from "./choice";

const one = (name: string, displayName?: string) => ({ metadata: { name }, spec: { displayName } });

it("says the name for people first, and each name once", () => {
  expect([one("shop", "Web shop"), one("shop", "shop"), one("shop", ""), { metadata: { name: "shop" } }].map(choiceText))
    .toEqual(["Web shop · shop", "shop", "shop", "shop"]);
});

it("is in the order of what is read", () => {
  expect(inChoiceOrder([one("a", "Zebra"), one("b", "apple"), one("m")])).toEqual(["b", "m", "a"]);
});
